//! What attachments and the instance process say to each other.
//!
//! One JSON value per line, requests one way, answers the other. Every request has exactly one answer, in order; before
//! the answer to [`Request::Stage`] come any number of [`Answer::Progress`]. [`Request::Cancel`] has none. Both sides
//! come from one program, so a difference of versions is an error, not a matter of negotiation.

use forebay_model::ids::ConfigurationId;
use forebay_model::units::Bytes;
use forebay_stager::{StageFailure, StageProgress, StageReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

use crate::account::InstanceAccount;
use crate::holders::Holders;
use crate::stage::StageTask;

/// Version of the protocol.
pub(crate) const VERSION: u32 = 3;
/// Longest line: a list of a hundred thousand files with long names fits.
pub(crate) const LINE_LIMIT: usize = 64 << 20;

/// From an attachment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// First on every connection.
    Hello {
        /// [`VERSION`] of the speaker.
        version: u32,
    },
    /// Mount a configuration where its description says.
    Mount {
        /// Which.
        configuration: ConfigurationId,
    },
    /// Unmount it.
    Unmount {
        /// Which.
        configuration: ConfigurationId,
    },
    /// Give the present figures.
    Figures,
    /// Give the accounting.
    Account,
    /// Stage data.
    Stage(Box<StageTask>),
    /// Stop the staging of this connection.
    Cancel,
    /// Unmount everything and end.
    End {
        /// The data is about to be removed: nothing needs to be written back.
        discard: bool,
    },
}

impl Request {
    /// What it asks for, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Hello { .. } => "open the instance",
            Request::Mount { .. } => "mount the configuration",
            Request::Unmount { .. } => "unmount the configuration",
            Request::Figures => "give its figures",
            Request::Account => "give its accounting",
            Request::Stage(_) => "stage data",
            Request::Cancel => "stop staging",
            Request::End { .. } => "end",
        }
    }
}

/// From the instance process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// To a hello.
    Ready {
        /// [`VERSION`] of the process.
        version: u32,
    },
    /// To a mount.
    Mounted,
    /// To an unmount.
    Unmounted {
        /// Who still uses it; `None` if it is gone completely.
        busy: Option<Holders>,
    },
    /// To a request for figures.
    Figures(Figures),
    /// To a request for the accounting.
    Account(InstanceAccount),
    /// A staging goes on.
    Progress(StageProgress),
    /// A staging has succeeded.
    Staged(StageReport),
    /// A staging has failed.
    StageFailed(Box<StageFailure>),
    /// The request could not be carried out.
    Refused {
        /// Why.
        reason: String,
    },
    /// To an end: all is unmounted and closed.
    Ended,
}

/// What the file system counts, over all configurations, since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    /// Bytes that can still be stored.
    pub available: Bytes,
    /// Bytes read through the volumes.
    pub bytes_read: u64,
    /// Bytes written through the volumes.
    pub bytes_written: u64,
    /// Files created.
    pub files_created: u64,
}

/// Sends one value.
pub(crate) fn send<T: Serialize>(stream: &mut impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    if line.len() >= LINE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than one message can hold"));
    }
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// A line on its way in. Kept between calls, so that a read that timed out can be taken up again.
#[derive(Debug, Default)]
pub(crate) struct Line(Vec<u8>);

impl Line {
    /// The next value; `None` at the end of the stream.
    pub fn receive<T: DeserializeOwned>(&mut self, stream: &mut impl BufRead) -> io::Result<Option<T>> {
        loop {
            let available = match stream.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                // A line that was cut off was never said.
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            self.0.extend_from_slice(&available[..taken]);
            stream.consume(taken);
            if self.0.len() > LINE_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without end"));
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.0);
                return serde_json::from_slice(&line).map(Some).map_err(|error| {
                    let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
                    io::Error::new(io::ErrorKind::InvalidData, format!("{shown}: {error}"))
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn values_come_back_one_by_one_and_a_torn_one_does_not() {
        let mut wire = Vec::new();
        send(&mut wire, &Request::Hello { version: 1 }).unwrap();
        send(&mut wire, &Request::Mount { configuration: ConfigurationId(7) }).unwrap();
        wire.extend_from_slice(b"{\"unmount\":{\"conf");
        let mut stream = BufReader::with_capacity(5, wire.as_slice());
        let mut line = Line::default();
        assert!(matches!(line.receive(&mut stream).unwrap(), Some(Request::Hello { version: 1 })));
        let second = line.receive(&mut stream).unwrap();
        assert!(matches!(second, Some(Request::Mount { configuration: ConfigurationId(7) })));
        assert!(line.receive::<Request>(&mut stream).unwrap().is_none());
    }

    #[test]
    fn what_is_not_of_the_protocol_is_an_error() {
        let mut stream = BufReader::new(&b"{\"reboot\":{}}\n"[..]);
        let error = Line::default().receive::<Request>(&mut stream).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("reboot"), "{error}");
    }
}
