//! What a client sees when the connection itself fails.

/// A failure below HTTP: the client gets no answer, or only a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nothing listens.
    #[error("connecting to the API server: connection refused")]
    Refused,
    /// The connection broke; whether the request was applied is unknown.
    #[error("reading the API server's answer: connection reset by peer")]
    Reset,
    /// The request's body could not be read.
    #[error("reading the request's body")]
    Body,
}
