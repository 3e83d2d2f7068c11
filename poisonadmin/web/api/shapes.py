"""What each kind of thing looks like in JSON."""

from poisonadmin.delivery.domain.retry_limits import Breaker
from poisonadmin.web.api.shape import Shape

BREAKER = Shape("Breaker", Breaker, also={"left": int, "rule": str, "sentence": str})
