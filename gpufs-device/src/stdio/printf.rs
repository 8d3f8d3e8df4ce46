//! `printf(3)` and its relatives on streams.
