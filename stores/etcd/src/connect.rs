//! The cluster's members, and which of them is asked.
//!
//! All calls go to one member for as long as it answers. Whoever meets a failure there moves on to the next one in the ring, for all:
//! so a member that failed is asked again only after all others failed, too.

use crate::auth::{Pass, Passes};
use crate::config::{EtcdConfig, Tls};
use crate::error::{AttemptError, Call};
use crate::unary::unary;
use crate::wire::{EtcdAnswer, ResponseHeader, WatchRequest, WatchResponse, path};
use http::uri::PathAndQuery;
use prost::Message;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Silence, Wait};
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// How often a member is pinged while a call is under way, and how long it may take to answer. etcd ends a connection on which pings come
/// within 5 s of each other, or without a call, for its fourth such ping.
const PING: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(3));
/// When the kernel begins to probe an idle connection, how often it does, and how many probes in a row may stay unanswered. etcd sees none.
const PROBES: (Duration, Duration, u32) = (Duration::from_secs(6), Duration::from_secs(1), 3);
/// What a member has at least to give a pass, where the time for a call allows it: checking a password takes it a tenth of a second and more.
const LOGIN: Duration = Duration::from_secs(1);
/// What is long to wait for a member's answer.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a call gets a new pass, where one is not accepted.
const PASSES: usize = 3;

/// Connections to all members, each made when it is first needed, and again when it has ended.
#[derive(Debug)]
pub(crate) struct MemberChannels {
    members: Vec<Channel>,
    current: AtomicUsize,
    /// Of the member that is asked.
    silence: Silence,
    passes: Passes,
    /// The file of this client's own certificate, which was read when this was made.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) place: String,
    pub(crate) endpoints: Vec<String>,
    timeout: Duration,
    /// The cluster of the first answer.
    cluster: OnceLock<u64>,
}

impl MemberChannels {
    /// Nothing is connected yet. Needs a tokio runtime around it.
    pub(crate) fn new(config: &EtcdConfig) -> Result<MemberChannels, StoreError> {
        let place = config.place();
        let tls = match &config.tls {
            Tls::LocalOnly | Tls::Plain => None,
            Tls::Verified { authorities, identity } => {
                let identity =
                    identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
                Some(secured(authorities.as_deref(), identity)?)
            }
        };
        // So that even if no member is reached, all are tried within one call.
        let share =
            config.timeout / (u32::try_from(config.endpoints.len()).unwrap_or(u32::MAX).saturating_add(1));
        let member = |endpoint: &String| {
            let bad = |error: tonic::transport::Error| {
                let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                StoreError::invalid(format!("{place}: {error}: {why}")).because(error)
            };
            let scheme = if tls.is_some() { "https" } else { "http" };
            let mut member = Endpoint::from_shared(format!("{scheme}://{endpoint}")).map_err(bad)?;
            if let Some(tls) = &tls {
                member = member.tls_config(tls.clone().timeout(share)).map_err(bad)?;
            }
            Ok(watchful(member.connect_timeout(share).tcp_nodelay(true), PING).connect_lazy())
        };
        let members = config.endpoints.iter().map(member).collect::<Result<Vec<Channel>, StoreError>>()?;
        // Processes begin at different members, so that not all load the first.
        let current = AtomicUsize::new(std::process::id() as usize % members.len().max(1));
        let certificate = match &config.tls {
            Tls::Verified { identity: Some((certificate, _)), .. } => Some(certificate.clone()),
            _ => None,
        };
        Ok(MemberChannels {
            certificate,
            members,
            current,
            silence: Silence::default(),
            passes: Passes::new(config.user.clone(), login_limit(config.timeout, config.endpoints.len())),
            place,
            endpoints: config.endpoints.clone(),
            timeout: config.timeout,
            cluster: OnceLock::new(),
        })
    }

    /// One question, answered by whichever member can.
    pub(crate) async fn ask<Q, A>(&self, call: Call, path: &'static str, question: Q) -> Result<A, StoreError>
    where
        Q: Message + Clone + 'static,
        A: EtcdAnswer,
    {
        self.try_ask(call, path, question).await.map_err(|fault| fault.into_error(call))
    }

    /// The same, for who has more to say of what went wrong.
    pub(crate) async fn try_ask<Q, A>(
        &self,
        call: Call,
        path: &'static str,
        question: Q,
    ) -> Result<A, AttemptError>
    where
        Q: Message + Clone + 'static,
        A: EtcdAnswer,
    {
        let mut sent = false;
        let tried = tokio::time::timeout(self.timeout, self.try_all(call, path, question, &mut sent)).await;
        tried.unwrap_or_else(|_| Err(AttemptError::unanswered(&self.place, sent)))
    }

    async fn try_all<Q, A>(
        &self,
        call: Call,
        path: &'static str,
        question: Q,
        sent: &mut bool,
    ) -> Result<A, AttemptError>
    where
        Q: Message + Clone + 'static,
        A: EtcdAnswer,
    {
        let (mut members, mut passes) = (self.members.len(), PASSES);
        // What a member said of the call tells more than that the ones after it can't be reached.
        let mut said = None;
        loop {
            let mut turn = self.turn();
            let (member, at) = (turn.channel(), turn.at);
            let answer = {
                let attempt = self.attempt(call, (member, at), path, question.clone(), sent);
                let wait = turn.wait.insert(Wait::default());
                wait.noting(PATIENCE.min(self.timeout / 2), || (), attempt).await
            };
            turn.wait = None;
            let fault = match answer {
                Ok(answer) => {
                    turn.went_well();
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let again = match &fault {
                AttemptError::Pass(_) => {
                    turn.went_well();
                    passes -= 1;
                    passes > 0
                }
                AttemptError::Refused(_) | AttemptError::Full(_) => {
                    turn.went_well();
                    false
                }
                AttemptError::Broken(_) if call == Call::Write => false,
                AttemptError::Unreached(_) | AttemptError::Elsewhere(_) | AttemptError::Broken(_) => {
                    members -= 1;
                    members > 0
                }
            };
            match (fault, again) {
                (AttemptError::Unreached(error), false) => {
                    return Err(said.unwrap_or(AttemptError::Unreached(error)));
                }
                (fault, false) => return Err(fault),
                (fault @ AttemptError::Elsewhere(_), true) => said = Some(fault),
                (_, true) => (),
            }
            *sent = false;
        }
    }

    /// One attempt at one member.
    async fn attempt<Q, A>(
        &self,
        call: Call,
        (member, at): (Channel, usize),
        path: &'static str,
        question: Q,
        sent: &mut bool,
    ) -> Result<A, AttemptError>
    where
        Q: Message + Clone + 'static,
        A: EtcdAnswer,
    {
        // A member that is silent must not use up the time in which another one answers. Of a write that was sent, no other is asked.
        let share = share_of(self.timeout, self.members.len());
        let pass = self.passes.current(&self.place, (member.clone(), at), || self.stands(at)).await?;
        let mut request = Request::new(question);
        pass.mark(&mut request);
        *sent = true;
        let asking = unary(member, path, request);
        let limit = if call == Call::Read { share } else { EtcdConfig::MAX_TIMEOUT };
        let answer = match tokio::time::timeout(limit, asking).await {
            Ok(answer) => answer,
            Err(_) => return Err(AttemptError::unanswered(&self.place, true)),
        };
        let answer: A = answer.map_err(|status| {
            let fault = AttemptError::of(&self.place, &status);
            if matches!(fault, AttemptError::Pass(_)) {
                self.refused(&pass);
            }
            fault
        })?;
        match self.foreign(answer.header()) {
            None => Ok(answer),
            // It is done there, and not here.
            Some(error) if call == Call::Write => Err(AttemptError::Broken(error)),
            Some(error) => Err(AttemptError::Elsewhere(error)),
        }
    }

    /// What is wrong with an answer of another cluster than the first one.
    pub(crate) fn foreign(&self, header: Option<&ResponseHeader>) -> Option<StoreError> {
        // A proxy does not always tell.
        let cluster = header.map(|header| header.cluster_id).filter(|cluster| *cluster != 0)?;
        let first = *self.cluster.get_or_init(|| cluster);
        (cluster != first).then(|| {
            StoreError::unavailable(format!(
                "{}: a member of another cluster answers ({cluster:016x}, and not {first:016x}); name members of one cluster, and restart \
                 processes once it was made anew",
                self.place
            ))
        })
    }

    /// One question to each member by itself, one after the other, all within the time for a call.
    pub(crate) async fn ask_each<Q, A>(
        &self,
        path: &'static str,
        question: Q,
    ) -> Vec<(&str, Result<A, StoreError>)>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let share = share_of(self.timeout, self.members.len());
        let mut answers = Vec::new();
        for (at, (endpoint, member)) in self.endpoints.iter().zip(&self.members).enumerate() {
            let asking = async {
                let pass = self.passes.current(&self.place, (member.clone(), at), || true).await?;
                let mut request = Request::new(question.clone());
                pass.mark(&mut request);
                let answer = unary(member.clone(), path, request).await;
                answer.map_err(|status| AttemptError::of(&self.place, &status))
            };
            let answer = match tokio::time::timeout(share, asking).await {
                Ok(answer) => answer.map_err(|fault| fault.into_error(Call::Read)),
                Err(_) => Err(AttemptError::unanswered(&self.place, true).into_error(Call::Read)),
            };
            answers.push((endpoint.as_str(), answer));
        }
        answers
    }

    /// A watch, as `create` says, and the pass by which it was asked for. Its member is left, for all, if it can't be opened, or the turn is told
    /// that it went wrong. A subscriber that goes meanwhile tells nothing of the member.
    pub(crate) async fn watch(
        &self,
        create: WatchRequest,
    ) -> Result<(Streaming<WatchResponse>, Pass, MemberTurn<'_>), StoreError> {
        let mut turn = self.turn();
        turn.stays = true;
        let opening = async {
            let asked = (turn.channel(), turn.at);
            let pass = self.passes.current(&self.place, asked, || self.stands(turn.at)).await?;
            // The stream of requests must not end: with it, the watch would.
            let requests = tokio_stream::once(create).chain(tokio_stream::pending());
            let mut request = Request::new(requests);
            pass.mark(&mut request);
            // What a watch has missed comes in pieces of a thousand revisions, each of any size.
            let mut grpc = Grpc::new(turn.channel()).max_decoding_message_size(usize::MAX);
            let codec: ProstCodec<WatchRequest, WatchResponse> = ProstCodec::default();
            grpc.ready()
                .await
                .map_err(|error| AttemptError::of(&self.place, &tonic::Status::from_error(error.into())))?;
            let stream = grpc.streaming(request, PathAndQuery::from_static(path::WATCH), codec).await;
            match stream {
                Ok(stream) => Ok((stream.into_inner(), pass)),
                Err(status) => {
                    let fault = AttemptError::of(&self.place, &status);
                    if matches!(fault, AttemptError::Pass(_)) {
                        self.refused(&pass);
                    }
                    Err(fault)
                }
            }
        };
        let fault = match tokio::time::timeout(self.timeout, opening).await {
            Ok(Ok((stream, pass))) => return Ok((stream, pass, turn)),
            Ok(Err(fault)) => fault,
            Err(_) => AttemptError::unanswered(&self.place, false),
        };
        turn.went_wrong();
        Err(fault.into_error(Call::Read))
    }

    /// A pass was not accepted.
    pub(crate) fn refused(&self, pass: &Pass) {
        self.passes.refused(pass);
    }

    /// Whether calls still go to this member.
    fn stands(&self, at: usize) -> bool {
        self.current.load(Ordering::SeqCst) == at
    }

    fn turn(&self) -> MemberTurn<'_> {
        let at = self.current.load(Ordering::SeqCst);
        MemberTurn { channels: self, at, stays: false, wait: None }
    }
}

/// One call's time at one member. Dropped without a word, be it by a caller that has waited for a while, it moves all on to the next. That of
/// a caller that goes away at once does not, and that of a watch does so only where it went wrong.
#[derive(Debug)]
pub(crate) struct MemberTurn<'a> {
    channels: &'a MemberChannels,
    at: usize,
    /// Whether calls stay at the member when this ends.
    stays: bool,
    /// For how long its answer has been waited for; none before that and after.
    wait: Option<Wait>,
}

impl MemberTurn<'_> {
    fn channel(&self) -> Channel {
        self.channels.members[self.at % self.channels.members.len()].clone()
    }

    /// Whether calls go to another member by now.
    pub(crate) fn is_left(&self) -> bool {
        !self.channels.stands(self.at)
    }

    pub(crate) fn went_well(mut self) {
        self.stays = true;
        self.channels.silence.answered();
    }

    pub(crate) fn went_wrong(mut self) {
        self.stays = false;
    }
}

impl Drop for MemberTurn<'_> {
    fn drop(&mut self) {
        let stays = self.wait.map_or(self.stays, |wait| !self.channels.silence.caller_left(wait));
        if !stays {
            // Of many whose calls failed there, only the first moves on.
            let next = (self.at + 1) % self.channels.members.len();
            let moved =
                self.channels.current.compare_exchange(self.at, next, Ordering::SeqCst, Ordering::SeqCst);
            if moved.is_ok() {
                self.channels.silence.answered();
            }
        }
    }
}

/// What each of so many members has of the time for a call.
fn share_of(timeout: Duration, members: usize) -> Duration {
    timeout / u32::try_from(members.max(1)).unwrap_or(u32::MAX)
}

/// How long a pass is waited for at one of so many members: long enough for a busy one to check a password.
fn login_limit(timeout: Duration, members: usize) -> Duration {
    share_of(timeout, members).max(timeout.min(LOGIN))
}

/// The same member, with a connection on which silence is noticed: a call's by pings, and between calls that of a host by the kernel's probes.
fn watchful(member: Endpoint, ping: (Duration, Duration)) -> Endpoint {
    let (idle, interval, probes) = PROBES;
    let probed = member.tcp_keepalive(Some(idle)).tcp_keepalive_interval(Some(interval));
    let pinged = probed.tcp_keepalive_retries(Some(probes)).keep_alive_while_idle(false);
    pinged.http2_keep_alive_interval(ping.0).keep_alive_timeout(ping.1)
}

/// TLS with what these files say.
fn secured(
    authorities: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<ClientTlsConfig, StoreError> {
    let tls = ClientTlsConfig::new();
    let tls = match authorities {
        None => tls.with_native_roots(),
        Some(file) => tls.ca_certificate(Certificate::from_pem(pem("ca", file, "CERTIFICATE")?)),
    };
    Ok(match identity {
        None => tls,
        Some((certificate, key)) => tls.identity(Identity::from_pem(
            pem("cert", certificate, "CERTIFICATE")?,
            pem("key", key, "PRIVATE KEY")?,
        )),
    })
}

/// What is read of a PEM file: far more than all authorities have. A device has no end.
const MOST_PEM: u64 = 16 << 20;

fn pem(option: &str, file: &Path, holds: &str) -> Result<String, StoreError> {
    let bad = |why: &dyn std::fmt::Display| {
        StoreError::invalid(format!(
            "{option}={}: {why}; name a PEM file that holds a {holds}",
            file.display()
        ))
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| bad(&error))?;
    opened.take(MOST_PEM).read_to_string(&mut text).map_err(|error| bad(&error))?;
    if text.contains(&format!("{holds}-----")) { Ok(text) } else { Err(bad(&"it holds none")) }
}

#[cfg(test)]
mod tests;
