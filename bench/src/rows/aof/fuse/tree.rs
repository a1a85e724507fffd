//! What the kernel knows of: numbers for paths and for open files.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::protocol::Body;

/// The number of the directory itself.
const ROOT: u64 = 1;

/// Paths and open files.
pub struct Tree {
    paths: HashMap<u64, PathBuf>,
    nodes: HashMap<PathBuf, u64>,
    open: HashMap<u64, Arc<File>>,
    next: u64,
}

impl Tree {
    pub fn new(root: PathBuf) -> Self {
        let (nodes, paths) = (HashMap::from([(root.clone(), ROOT)]), HashMap::from([(ROOT, root)]));
        Self { paths, nodes, open: HashMap::new(), next: ROOT + 1 }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Where a node is.
    ///
    /// # Errors
    /// It is gone.
    pub fn path(&self, node: u64) -> io::Result<PathBuf> {
        self.paths.get(&node).cloned().ok_or_else(no_entry)
    }

    /// Where something in a directory is.
    ///
    /// # Errors
    /// The directory is gone.
    pub fn below(&self, node: u64, name: &str) -> io::Result<PathBuf> {
        Ok(self.path(node)?.join(name))
    }

    /// Something in a directory.
    ///
    /// # Errors
    /// It is not there.
    pub fn entry(&mut self, node: u64, name: &str) -> io::Result<Body> {
        let path = self.below(node, name)?;
        let of = fs::symlink_metadata(&path)?;
        let node = match self.nodes.get(&path) {
            Some(node) => *node,
            None => {
                let node = self.number();
                self.nodes.insert(path.clone(), node);
                self.paths.insert(node, path);
                node
            }
        };
        Ok(Body::entry(node, &of))
    }

    /// What a node is.
    ///
    /// # Errors
    /// It is gone.
    pub fn attributes(&self, node: u64) -> io::Result<Body> {
        Ok(Body::of_node(node, &fs::symlink_metadata(self.path(node)?)?))
    }

    /// Removes something from a directory.
    ///
    /// # Errors
    /// As of `remove`.
    pub fn remove(
        &mut self,
        node: u64,
        name: &str,
        remove: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Body> {
        let path = self.below(node, name)?;
        remove(&path)?;
        if let Some(node) = self.nodes.remove(&path) {
            self.paths.remove(&node);
        }
        Ok(Body::default())
    }

    /// Renames a file.
    ///
    /// # Errors
    /// As of the system.
    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> io::Result<Body> {
        let (from, to) = (self.below(from.0, from.1)?, self.below(to.0, to.1)?);
        fs::rename(&from, &to)?;
        if let Some(before) = self.nodes.remove(&to) {
            self.paths.remove(&before);
        }
        if let Some(node) = self.nodes.remove(&from) {
            self.paths.insert(node, to.clone());
            self.nodes.insert(to, node);
        }
        Ok(Body::default())
    }

    /// Opens a file. Where it is written is the kernel's concern, so it is not opened to append.
    ///
    /// # Errors
    /// As of the system.
    pub fn open(&mut self, node: u64) -> io::Result<Body> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(node)?)?;
        let number = self.number();
        self.open.insert(number, Arc::new(file));
        Ok(Body::default().u64(number).u64(0))
    }

    /// An open file.
    ///
    /// # Errors
    /// It was closed.
    pub fn file(&self, number: u64) -> io::Result<Arc<File>> {
        self.open.get(&number).cloned().ok_or_else(no_entry)
    }

    /// Closes a file.
    ///
    /// # Errors
    /// None.
    pub fn close(&mut self, number: u64) -> io::Result<Body> {
        self.open.remove(&number);
        Ok(Body::default())
    }

    /// What is in a directory, from the entry of this number on, in at most so many bytes.
    ///
    /// # Errors
    /// It can't be read.
    pub fn list(&self, node: u64, from: u64, most: usize) -> io::Result<Body> {
        const DIRECTORY: u32 = 4;
        const FILE: u32 = 8;
        let mut all = fs::read_dir(self.path(node)?)?.collect::<io::Result<Vec<_>>>()?;
        all.sort_by_key(fs::DirEntry::file_name);
        let mut body = Body::default();
        for (number, entry) in all.iter().enumerate().skip(from as usize) {
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let name = name.as_encoded_bytes();
            let kind = if kind.is_dir() { DIRECTORY } else { FILE };
            let len = 24 + name.len().next_multiple_of(8);
            if body.as_bytes().len() + len > most {
                break;
            }
            // The number of an entry is not looked at.
            body = body.u64(ROOT).u64(number as u64 + 1).u32(name.len() as u32).u32(kind);
            body = body.bytes(name).bytes(&[0; 8][..len - 24 - name.len()]);
        }
        Ok(body)
    }
}

fn no_entry() -> io::Error {
    const ENOENT: i32 = 2;
    io::Error::from_raw_os_error(ENOENT)
}
