from databases import postgresql, store_templates, store_url  # noqa: F401
