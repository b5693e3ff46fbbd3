//! What can go wrong with a results file.

use std::path::{Path, PathBuf};

/// One sentence about a file that could not be read, written or merged: which file, where in it, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, where, and what to do.
    pub message: String,
}

impl FileError {
    /// An error about `path`.
    pub fn new(path: &Path, message: impl Into<String>) -> Self {
        FileError { path: path.to_path_buf(), message: message.into() }
    }
}
