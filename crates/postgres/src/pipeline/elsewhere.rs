//! Errors after which a read is asked again of another server.

/// SQLSTATEs of a server that is read-only, in recovery, shutting down or starting.
const ELSEWHERE: [&[u8]; 5] = [b"25006", b"40001", b"57P01", b"57P02", b"57P03"];

/// The statement's result has changed (`cached plan must not change result type`). A client that
/// has prepared it before that has to hear of it, since it may remember what the result was; for
/// one that prepares it in this very round it is prepared again.
pub const CHANGED: &[u8] = b"0A000";

/// Whether a read that failed so, before anything of its reply was told, is for another server.
/// Some reads (0A000) a standby does not do.
pub fn is_for_another(code: &[u8], is_replica: bool) -> bool {
    ELSEWHERE.contains(&code) || (is_replica && code == CHANGED)
}
