//! Asking the cluster's controller: blocking calls for commands and agents.
//!
//! One connection for each request, over a Unix socket (the kernel says who asks) or TCP (a MUNGE credential does, made
//! anew for each attempt). A [`Client`] holds nothing open; any thread may use it, several at once too.
//!
//! While the controller is away, a request is tried again until the client's patience ends. A request whose answer was
//! lost is sent again if that makes nothing twice; otherwise the caller is told that it may have been done.

mod address;
mod exchange;

pub use address::{Address, AddressError, CONFIG_FILE, DEFAULT_SOCKET};
pub(crate) use exchange::keep_alive;

use crate::cluster::effect::{Answer, List};
use crate::cluster::event::AgentMessage;
use crate::cluster::request::Request;
use crate::cluster::row::StageRow;
use crate::cluster::view::Shown;
use crate::munge::{Munge, MungeError};
use crate::protocol::rows::{self, Audience};
use crate::protocol::{Form, Method, ROWS_FORM, Refused, Saying, Secrets, form_of};
use crate::registry::Snapshot;
use exchange::{Exchange, Fault, Response};
use forebay_model::ids::InstanceId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// How long a request is tried while the controller is away, unless said otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// A connection that lasted so long shows that the controller was there: patience begins anew with its end.
const WAS_THERE: Duration = Duration::from_secs(6);
/// Longest that an answer may take which needs no work.
const PROMPT: Duration = Duration::from_secs(60);

/// The controller, as seen from here.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    munge: Munge,
    patience: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The controller refused, or says that it failed.
    #[error("{text}")]
    Refused {
        /// The kind, one word.
        kind: String,
        /// One sentence for the user.
        text: String,
    },
    /// The controller cannot be reached.
    #[error(
        "the burst buffer controller at {address} does not answer: {reason}; try again, or tell an operator"
    )]
    Unreachable {
        /// Where.
        address: Address,
        /// Why.
        reason: String,
    },
    /// The connection was lost after the request was sent, and sending it again might do it twice.
    #[error("the connection to {address} was lost: look whether it was done before you try again ({reason})")]
    Unanswered {
        /// Where.
        address: Address,
        /// Why.
        reason: String,
    },
    /// What answers is no controller, or one of another version.
    #[error("what answers at {address} is no controller that this program understands: {reason}")]
    NotAController {
        /// Where.
        address: Address,
        /// Why.
        reason: String,
    },
    /// No credential can be made.
    #[error(transparent)]
    Munge(#[from] MungeError),
}

/// What there is to do for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Orders {
    /// A newer list.
    List(List),
    /// Nothing new.
    Nothing,
    /// The controller wants it to register.
    Register,
}

/// What became of what an agent said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was heard.
    Yes,
    /// The controller wants it to register.
    Register,
}

impl Client {
    /// A client for the controller at this address. Nothing is sent yet.
    pub fn open(address: Address) -> Client {
        Client { address, munge: Munge::default(), patience: DEFAULT_PATIENCE }
    }

    /// The same with another patience; zero is one attempt.
    pub fn with_patience(self, patience: Duration) -> Client {
        Client { patience, ..self }
    }

    /// The same with the munged at another socket.
    pub fn with_munge(self, munge: Munge) -> Client {
        Client { munge, ..self }
    }

    /// Where it asks.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks for something and waits as long as it takes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&self, request: &Request) -> Result<Answer, ClientError> {
        #[derive(Deserialize)]
        struct Answered {
            answer: Answer,
        }
        let Form { method, target, body, repeatable } = form_of(request);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let exchange = Exchange { method, target: &target, body: &body, limit: None };
        let response = self.send(&exchange, repeatable)?;
        self.read::<Answered>(&response).map(|answered| answered.answer)
    }

    /// All objects that the caller may see.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn snapshot(&self) -> Result<Snapshot, ClientError> {
        self.get("/v1/snapshot")
    }

    /// Those of some tables; the others are empty.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn look(&self, tables: &[Shown]) -> Result<Snapshot, ClientError> {
        let mut seen = Snapshot::default();
        self.look_through(tables, &mut seen)?;
        Ok(seen)
    }

    /// Tells those of some tables one by one, table by table in this order.
    ///
    /// # Errors
    /// [`ClientError`]; then the audience may have heard a part.
    pub fn look_through(&self, tables: &[Shown], audience: &mut impl Audience) -> Result<(), ClientError> {
        let names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
        let target = format!("/v1/snapshot?tables={}&form={ROWS_FORM}", names.join(","));
        let exchange = Exchange { method: Method::Get, target: &target, body: b"", limit: Some(PROMPT) };
        let response = self.send(&exchange, true)?;
        rows::read(response.body(), audience).map_err(|error| self.not_understood(error))
    }

    /// The accounting of an instance, as its file servers tell it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn account(&self, instance: InstanceId) -> Result<serde_json::Value, ClientError> {
        self.get(&format!("/v1/instances/{instance}/account"))
    }

    /// Stagings that the caller may see.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stages(&self) -> Result<Vec<StageRow>, ClientError> {
        #[derive(Deserialize)]
        struct Stages {
            stages: Vec<StageRow>,
        }
        self.get::<Stages>("/v1/stages").map(|found| found.stages)
    }

    /// An agent says something.
    ///
    /// # Errors
    /// [`ClientError`]; `Refused` with the kind `not_admitted` for a registration that is not accepted.
    pub fn tell(&self, node: &str, incarnation: u64, message: &AgentMessage) -> Result<Heard, ClientError> {
        let saying = Saying { incarnation, message: message.clone() };
        let body = serde_json::to_vec(&saying).unwrap_or_default();
        let target = format!("/v1/agents/{}", crate::protocol::escaped(node));
        let exchange = Exchange { method: Method::Post, target: &target, body: &body, limit: Some(PROMPT) };
        match self.send(&exchange, true) {
            Ok(_) => Ok(Heard::Yes),
            Err(error) if wants_registration(&error) => Ok(Heard::Register),
            Err(error) => Err(error),
        }
    }

    /// Waits for a list of orders that is newer than `after`, at most so long (and at most
    /// [`crate::protocol::MAX_POLL_S`]).
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn orders(
        &self,
        node: &str,
        incarnation: u64,
        after: u64,
        wait: Duration,
    ) -> Result<Orders, ClientError> {
        let (node, wait_s) = (crate::protocol::escaped(node), wait.as_secs());
        let target =
            format!("/v1/agents/{node}/orders?incarnation={incarnation}&after={after}&wait={wait_s}");
        let limit = Some(wait + PROMPT);
        let exchange = Exchange { method: Method::Get, target: &target, body: b"", limit };
        match self.send(&exchange, true) {
            Ok(response) if response.status == NO_CONTENT => Ok(Orders::Nothing),
            Ok(response) => self.read(&response).map(Orders::List),
            Err(error) if wants_registration(&error) => Ok(Orders::Register),
            Err(error) => Err(error),
        }
    }

    /// The secrets of an instance that this node has to do with. Only root gets them.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn secrets(&self, node: &str, instance: InstanceId) -> Result<Secrets, ClientError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Sent {
            Sealed { credential: String },
            Plain(Secrets),
        }
        let node = crate::protocol::escaped(node);
        match self.get(&format!("/v1/agents/{node}/secrets/{instance}"))? {
            Sent::Plain(secrets) => Ok(secrets),
            Sent::Sealed { credential } => {
                let decoded = self.munge.decode(&credential)?;
                // Only the controller, which runs as root or as a user of its own, could be asked for them; who answers
                // with a credential of somebody else is checked by the handshake with the file servers.
                serde_json::from_slice(&decoded.payload).map_err(|error| self.not_understood(error))
            }
        }
    }

    fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, ClientError> {
        let exchange = Exchange { method: Method::Get, target, body: b"", limit: Some(PROMPT) };
        self.read(&self.send(&exchange, true)?)
    }

    fn read<T: DeserializeOwned>(&self, response: &Response) -> Result<T, ClientError> {
        serde_json::from_slice(response.body()).map_err(|error| self.not_understood(error))
    }

    fn not_understood(&self, error: impl std::fmt::Display) -> ClientError {
        ClientError::NotAController { address: self.address.clone(), reason: error.to_string() }
    }

    /// Sends a request until it is answered or patience ends.
    fn send(&self, exchange: &Exchange<'_>, repeatable: bool) -> Result<Response, ClientError> {
        let mut away_since = Instant::now();
        loop {
            let sent_at = Instant::now();
            let outcome = exchange.carry_out(&self.address, &self.munge);
            if sent_at.elapsed() > WAS_THERE {
                away_since = Instant::now();
            }
            let fault = match outcome {
                Ok(response) if response.status == UNAVAILABLE => unavailable(&response),
                Ok(response) => return self.judge(response),
                Err(fault) => fault,
            };
            let address = self.address.clone();
            match fault {
                Fault::Munge(error) => return Err(error.into()),
                Fault::Nonsense(reason) => return Err(ClientError::NotAController { address, reason }),
                Fault::Lost(reason) if !repeatable => {
                    return Err(ClientError::Unanswered { address, reason });
                }
                Fault::Lost(reason) | Fault::NotReached(reason) => {
                    if away_since.elapsed() + RETRY_PAUSE > self.patience {
                        return Err(ClientError::Unreachable { address, reason });
                    }
                }
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    fn judge(&self, response: Response) -> Result<Response, ClientError> {
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let refused: Refused = serde_json::from_slice(response.body()).map_err(|_| {
            let reason = format!("status {} without a reason", response.status);
            ClientError::NotAController { address: self.address.clone(), reason }
        })?;
        Err(ClientError::Refused { kind: refused.refusal, text: refused.text })
    }
}

const NO_CONTENT: u16 = 204;
const UNAVAILABLE: u16 = 503;

/// The controller is there, but not for long, or not yet as a whole.
fn unavailable(response: &Response) -> Fault {
    match serde_json::from_slice::<Refused>(response.body()) {
        // It may have been done, and only the answer is missing.
        Ok(refused) if refused.refusal == ENDING => Fault::Lost(refused.text),
        Ok(refused) => Fault::NotReached(refused.text),
        Err(error) => Fault::Nonsense(error.to_string()),
    }
}

/// The word for a controller that ends.
pub(crate) const ENDING: &str = "ending";

/// The word with which the controller asks an agent to register.
pub(crate) const REGISTER: &str = "register";

fn wants_registration(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { kind, .. } if kind == REGISTER)
}
