"""The page at which a person sets the account's password, with a link that an administrator has made."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpResponse
from django.urls import reverse_lazy

from poisonadmin.core.commands import audit


class SetPassword(PasswordResetConfirmView):
    """Takes a link once, for an account that is open. It logs nobody in: the login asks for all that it always does."""

    template_name = "account/set_password.html"
    success_url = reverse_lazy("account_login")

    def get_user(self, uidb64: str) -> User | None:
        """Return the account of the link; None where it is closed."""
        user = super().get_user(uidb64)
        return user if isinstance(user, User) and user.is_active else None

    def get_template_names(self) -> list[str]:
        """Return the form's template, or the one that says that the link is over."""
        return [self.template_name if self.validlink else "account/link_over.html"]

    def form_valid(self, form: Any) -> HttpResponse:
        """Set the password; sessions that began with another one end by themselves."""
        name = form.user.get_username()
        answer = super().form_valid(form)
        audit.record(name, "user.password_set", "user", name)
        messages.success(self.request, f"The password of {name} is set. Log in with it.")
        return answer
