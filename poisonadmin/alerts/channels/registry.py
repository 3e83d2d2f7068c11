"""The channels by kind."""

from collections.abc import Mapping

from poisonadmin.alerts.channels.contract import AlertChannel
from poisonadmin.alerts.channels.email import EMAIL
from poisonadmin.alerts.channels.pagerduty import PAGERDUTY
from poisonadmin.alerts.channels.slack import SLACK
from poisonadmin.alerts.channels.teams import TEAMS
from poisonadmin.alerts.channels.webhook import WEBHOOK
from poisonadmin.alerts.domain.kinds import ChannelKind

CHANNELS: Mapping[ChannelKind, AlertChannel] = {
    ChannelKind.WEBHOOK: WEBHOOK,
    ChannelKind.EMAIL: EMAIL,
    ChannelKind.SLACK: SLACK,
    ChannelKind.TEAMS: TEAMS,
    ChannelKind.PAGERDUTY: PAGERDUTY,
}
