"""Compiled inner loops. Index arrays are those of `Pooling`: −1 ends a row."""
