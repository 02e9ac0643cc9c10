"""What the parts of a bundle's networks cost, in multiply-adds or what is measured in their place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poolsieve.strict_json import FromZero


@dataclass(frozen=True)
class MultiplyAdds:
    """Cost of the parts of a bundle's networks for one image or one pool, in multiply-adds.

    Attributes:
        front: Image to front features, once per image.
        back: Front or merged features to the vector before the final layer, once per pool or retest.
        final: The last linear layer.
        gate: The gate with the cheap head, once per image; 0 if there is none.
        glance: The glance at a shrunken image, once per image; 0 if there is none. Where the individual
            network looks at images itself, what comes after the front.
        individual: The individual network where it looks at images itself; 0 where it goes on from front
            features.
        pooled: Back and last layer for one pool where pools are merged at several depths; 0 where that is
            as much as for one image.
    """

    front: FromZero
    back: FromZero
    final: FromZero
    gate: FromZero = 0
    glance: FromZero = 0
    individual: FromZero = 0
    pooled: FromZero = 0

    @property
    def whole(self) -> int:
        """One individual test."""
        return self.individual or self.front + self.back + self.final

    @property
    def front_share(self) -> float:
        """The front's share f of one individual test."""
        return self.front / self.whole

    @property
    def gate_share(self) -> float:
        """The gate's cost as a share of one individual test."""
        return self.gate / self.whole

    @property
    def glance_share(self) -> float:
        """The glance's cost as a share of one individual test."""
        return self.glance / self.whole

    def with_front_share(self, share: float) -> MultiplyAdds:
        """The cost of a network as dear for one test whose front has this share of it; gate and glance stay.

        Raises:
            ValueError: There is no such network: tests do not go on from the front, or a pool costs more than
                what comes after it.
        """
        if self.individual:
            raise ValueError(
                f"a front share of {share} makes no sense for a joined bundle: its individual network looks "
                "at images itself and does not go on from the front; plan without one"
            )
        if self.pooled:
            raise ValueError(
                f"a front share of {share} does not tell what a pool costs where pools are merged at several "
                "depths; plan without one, or take a bundle that merges them once"
            )
        front = round(share * self.whole)
        return replace(self, front=front, back=self.whole - front - self.final)
