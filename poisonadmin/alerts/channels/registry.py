"""The channels by kind."""

from collections.abc import Mapping

from poisonadmin.alerts.channels.contract import AlertChannel
from poisonadmin.alerts.channels.email import EMAIL
from poisonadmin.alerts.channels.webhook import WEBHOOK
from poisonadmin.alerts.domain.kinds import ChannelKind

CHANNELS: Mapping[ChannelKind, AlertChannel] = {
    ChannelKind.WEBHOOK: WEBHOOK,
    ChannelKind.EMAIL: EMAIL,
}
