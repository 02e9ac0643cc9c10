"""`poolsieve serve`: requests are gathered into chunks under deadlines, judged, kept and answered."""
