//! Locks that a panic leaves usable: it counts as an error of one object only.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The content of a mutex, also after a panic of another holder.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
