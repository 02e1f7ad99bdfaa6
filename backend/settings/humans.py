"""``humans`` in ``camvo.yaml``: what a person's label costs."""

from __future__ import annotations

from pydantic import BaseModel, model_validator

from .mistakes import FROZEN, mistake
from .policies import NotNegative


class HumanSettings(BaseModel):
    """What a person's label costs, in dollars: per label, or per minute by the time that labels take."""

    model_config = FROZEN

    price: NotNegative | None = None
    """Dollars per label."""
    price_per_minute: NotNegative | None = None
    """Dollars per minute; Label Studio says how long a label takes (``lead_time``)."""

    @model_validator(mode="after")
    def _one_price(self) -> HumanSettings:
        if self.price is not None and self.price_per_minute is not None:
            raise mistake("price_per_minute", "is set beside price", "keep one of both")
        return self

    @property
    def priced(self) -> bool:
        """Whether a price is set."""
        return self.price is not None or self.price_per_minute is not None
