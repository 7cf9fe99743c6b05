//! Bytes of an epoch, as measured and as predicted.

use crate::Error;

/// Checks the bytes sent against the prediction.
pub(super) fn same_sent(sent: u64, predicted: u64) -> Result<(), Error> {
    match sent == predicted {
        true => Ok(()),
        false => Err(Error::Bytes { sent, predicted }),
    }
}

/// Checks the bytes copied to and from the hosts against the prediction.
pub(super) fn same_moved(moved: u64, predicted: u64) -> Result<(), Error> {
    match moved == predicted {
        true => Ok(()),
        false => Err(Error::Moved { moved, predicted }),
    }
}
