//! Formatting: `printf` and its relatives (stage 1).
