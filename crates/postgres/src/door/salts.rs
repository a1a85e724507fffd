//! The secret from which the salts of unknown users are made, and those of known passwords.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngCore as _;

use super::DoorError;
use crate::settings::Settings;

/// The file's name in the directory that systemd gives a service for what it keeps.
const NAME: &str = "postgres-salts";
/// Bytes of a secret that is made here.
const BYTES: usize = 32;
/// The fewest bytes that are taken for a secret.
const BYTES_MIN: usize = 16;

/// Bytes that nobody can guess, the same for as long as the process runs.
#[derive(Clone)]
pub struct Salts(Arc<[u8]>);

impl Salts {
    /// From the file that the settings name, which is made where it is not there; else from one in
    /// systemd's `StateDirectory`; else for this process alone.
    ///
    /// # Errors
    /// The file that the settings name can be neither read nor made.
    pub fn open(settings: &Settings) -> Result<Self, DoorError> {
        if let Some(path) = &settings.salt_file {
            let failed = |source| DoorError::Salts { file: path.display().to_string(), source };
            return Self::of(path).map_err(failed);
        }
        let Some(path) = of_service() else { return Ok(Self::passing()) };
        Ok(Self::of(&path).unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "salts will be other ones after a restart");
            Self::passing()
        }))
    }

    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// For this process alone.
    pub fn passing() -> Self {
        let mut secret = [0; BYTES];
        rand::rng().fill_bytes(&mut secret);
        Self(secret.into())
    }

    fn of(path: &Path) -> io::Result<Self> {
        let secret = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)?,
            read => read?,
        };
        let secret = secret.trim_ascii();
        if secret.len() < BYTES_MIN {
            let what = format!("it holds less than {BYTES_MIN} bytes; write random ones into it");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self(secret.into()))
    }
}

/// What was written into the new file. Whole or not at all, whoever else makes it now.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    let mut random = [0; BYTES];
    rand::rng().fill_bytes(&mut random);
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let own = path.with_extension(format!("new-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&own)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // Unlike a rename, a link leaves a file alone that is there by now.
    let linked = fs::hard_link(&own, path);
    fs::remove_file(&own)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read(path),
        linked => linked.map(|()| text.into_bytes()),
    }
}

fn of_service() -> Option<PathBuf> {
    let state = std::env::var("STATE_DIRECTORY").ok()?;
    let first = state.split(':').next().filter(|dir| !dir.is_empty())?;
    Some(Path::new(first).join(NAME))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn settings(path: &Path) -> Settings {
        Settings { salt_file: Some(path.to_owned()), ..Settings::default() }
    }

    #[test]
    fn the_secret_is_made_once_and_read_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("salts");
        let first = Salts::open(&settings(&path)).unwrap();
        let again = Salts::open(&settings(&path)).unwrap();
        assert_eq!(first.expose(), again.expose());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let other = Salts::open(&settings(&dir.path().join("other"))).unwrap();
        assert_ne!(first.expose(), other.expose());
    }

    #[test]
    fn what_can_be_guessed_or_not_be_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("salts");
        fs::write(&path, "short\n").unwrap();
        assert!(Salts::open(&settings(&path)).is_err());
        assert!(Salts::open(&settings(dir.path())).is_err());
    }
}
