//! CPU profiles of the running process, as `go tool pprof` reads them.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pprof::protos::Message as _;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The process has one profiling timer.
    #[error("another profile is being taken; try again when it is done")]
    Busy,
    /// The profile asked for is outside the limits.
    #[error("a profile takes 1 to 300 seconds at 1 to 1000 samples a second")]
    Range,
    /// The profiler did not start or its samples could not be read.
    #[error("taking the profile failed: {0}")]
    Profiler(#[from] pprof::Error),
    /// The profile could not be written.
    #[error("writing the profile failed: {0}")]
    Write(String),
}

static RUNNING: AtomicBool = AtomicBool::new(false);

/// Clears [`RUNNING`] also when the client goes and the future is dropped.
struct Turn;

impl Turn {
    fn take() -> Result<Self, ProfileError> {
        if RUNNING.swap(true, Ordering::Acquire) {
            return Err(ProfileError::Busy);
        }
        Ok(Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Release);
    }
}

/// Samples all threads' stacks `hz` times per second of CPU time for `seconds` and gives a gzipped
/// protobuf profile. Needs a tokio runtime; the symbols are looked up on a blocking thread.
///
/// # Errors
/// Another profile is under way, the arguments are out of range, or the profiler failed.
pub async fn cpu(seconds: u64, hz: u32) -> Result<Vec<u8>, ProfileError> {
    if !(1..=300).contains(&seconds) || !(1..=1000).contains(&hz) {
        return Err(ProfileError::Range);
    }
    let turn = Turn::take()?;
    let rate = i32::try_from(hz).map_err(|_| ProfileError::Range)?;
    let guard = pprof::ProfilerGuardBuilder::default().frequency(rate).build()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let work = move || {
        let _turn = turn;
        let profile = guard.report().build()?.pprof()?;
        compress(&profile.encode_to_vec())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => Err(ProfileError::Write(failed.to_string())),
    }
}

fn compress(profile: &[u8]) -> Result<Vec<u8>, ProfileError> {
    let failed = |error: std::io::Error| ProfileError::Write(error.to_string());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(profile).map_err(failed)?;
    gzip.finish().map_err(failed)
}
