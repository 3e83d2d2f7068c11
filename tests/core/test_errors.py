"""Each error is declared once."""

from collections import Counter

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.web.api.reference import error_classes


def test_one_class_declares_a_code() -> None:
    declared = Counter(error.code for error in [PoisonAdminError, *error_classes()] if "code" in vars(error))
    assert len(declared) > 30
    assert [code for code, classes in declared.items() if classes > 1] == []


def test_what_derives_from_an_error_with_a_code_declares_neither_again() -> None:
    again = [
        error.__qualname__
        for error in error_classes()
        if PoisonAdminError not in error.__bases__ and {"code", "status"} & set(vars(error))
    ]
    assert again == []
