//! What the status byte of a response says.

/// Whether a response carries a result, or why it does not. Names are those of Dubbo's `Response`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The body is a result, which may be an exception of the service's own.
    Ok,
    /// The body could not be serialized; only Dubbo 3 says it.
    SerializationError,
    /// The client gave up; it says so to itself, and never sends it.
    ClientTimeout,
    /// The server was not done in time.
    ServerTimeout,
    /// The connection was closed before the answer; clients say it to themselves.
    ChannelInactive,
    /// The server cannot read the request.
    BadRequest,
    /// The server cannot write its answer, as one above the limit of a body.
    BadResponse,
    /// There is no such service.
    ServiceNotFound,
    /// The service failed outside of its method.
    ServiceError,
    /// The server failed outside of the service.
    ServerError,
    /// The client failed; it says so to itself.
    ClientError,
    /// No thread of the server's pool was free.
    ServerThreadpoolExhausted,
    /// A byte that Dubbo does not define.
    Other(u8),
}

impl Status {
    /// The status that a byte stands for.
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            20 => Self::Ok,
            25 => Self::SerializationError,
            30 => Self::ClientTimeout,
            31 => Self::ServerTimeout,
            35 => Self::ChannelInactive,
            40 => Self::BadRequest,
            50 => Self::BadResponse,
            60 => Self::ServiceNotFound,
            70 => Self::ServiceError,
            80 => Self::ServerError,
            90 => Self::ClientError,
            100 => Self::ServerThreadpoolExhausted,
            other => Self::Other(other),
        }
    }

    /// The byte of a header that stands for it.
    pub fn byte(self) -> u8 {
        match self {
            Self::Ok => 20,
            Self::SerializationError => 25,
            Self::ClientTimeout => 30,
            Self::ServerTimeout => 31,
            Self::ChannelInactive => 35,
            Self::BadRequest => 40,
            Self::BadResponse => 50,
            Self::ServiceNotFound => 60,
            Self::ServiceError => 70,
            Self::ServerError => 80,
            Self::ClientError => 90,
            Self::ServerThreadpoolExhausted => 100,
            Self::Other(other) => other,
        }
    }

    /// The constant of Dubbo's `Response`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::SerializationError => "SERIALIZATION_ERROR",
            Self::ClientTimeout => "CLIENT_TIMEOUT",
            Self::ServerTimeout => "SERVER_TIMEOUT",
            Self::ChannelInactive => "CHANNEL_INACTIVE",
            Self::BadRequest => "BAD_REQUEST",
            Self::BadResponse => "BAD_RESPONSE",
            Self::ServiceNotFound => "SERVICE_NOT_FOUND",
            Self::ServiceError => "SERVICE_ERROR",
            Self::ServerError => "SERVER_ERROR",
            Self::ClientError => "CLIENT_ERROR",
            Self::ServerThreadpoolExhausted => "SERVER_THREADPOOL_EXHAUSTED_ERROR",
            Self::Other(_) => "UNKNOWN",
        }
    }
}
