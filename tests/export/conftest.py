from bundle_fixtures import folder, holder, one_thread, tiny_bundle, tiny_run  # noqa: F401
