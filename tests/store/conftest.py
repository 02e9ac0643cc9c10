from databases import clock, empty_database, postgresql, store, store_templates, store_url  # noqa: F401
