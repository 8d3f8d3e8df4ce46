//! What ends a measurement.

/// Anything that ends a measurement; its text is the message.
pub(crate) type Failure = Box<dyn std::error::Error>;
