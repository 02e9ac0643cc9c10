"""Runs migrations on the connection that `poolsieve.store.migrating` hands over."""

from alembic import context

from poolsieve.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
