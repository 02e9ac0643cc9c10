from databases import clock, postgresql, store_templates, store_url  # noqa: F401
from review_site import alone, browser, client, page, served, small_store, store  # noqa: F401
