"""Choosing the cheapest way to decide that meets a target, from recorded readings."""
