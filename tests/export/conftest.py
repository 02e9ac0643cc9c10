from bundle_fixtures import folder, one_thread, tiny_bundle, tiny_run  # noqa: F401
