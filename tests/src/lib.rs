//! Helpers shared by the whole-stack tests.
