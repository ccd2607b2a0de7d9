//! Orders certificates that are missing, and renews certificates before they expire.

use crate::draft::Draft;
use crate::due::{RENEW_AFTER, due, present};
use crate::files::{Right, account_key, replace};
use crate::https::{Https, World};
use crate::order::order;
use crate::pace::{Failure, Pause, pause};
use crate::record::now;
use crate::session::{Session, Trouble};
use crate::settings::{Names, Settings};
use oribi_tls::Identity;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// The longest sleep. Due times are computed again after it, because clocks are set, and machines are suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The interval at which to check whether another process still orders certificates into the same folder.
const LOOK: Duration = Duration::from_secs(2);

/// Orders and renews certificates. Its calls block.
#[derive(Debug)]
pub struct Client<'a> {
    settings: &'a Settings,
    certificates: Vec<Kept<'a>>,
    right: Option<Right>,
    done: Done,
    /// Whether the log already has the message that another process has the right to order certificates.
    said: bool,
}

/// Counts since the last [`Client::take_done`], for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Certificates that were ordered or renewed.
    pub ordered: u64,
    /// The number of failed attempts.
    pub failed: u64,
}

/// A certificate to renew, and its failures.
pub(crate) struct Kept<'a> {
    names: &'a Names,
    /// Failures in a row.
    failures: u32,
    /// The earliest time of the next attempt, even if the certificate is due before that; `None` if there is no such limit.
    not_before: Option<Instant>,
    progress: Progress,
}

impl fmt::Debug for Kept<'_> {
    /// Shows no key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kept").field("names", self.names).field("failures", &self.failures).finish_non_exhaustive()
    }
}

/// The progress of an order, with which the next attempt continues.
#[derive(Default)]
pub(crate) struct Progress {
    /// The draft of an order that may have been finalized.
    draft: Option<Draft>,
    /// The certificate of the draft, if it could not be written.
    unwritten: Option<Issued>,
}

/// A certificate that was issued.
struct Issued {
    /// The content of its file.
    content: String,
    identity: Identity,
}

impl<'a> Client<'a> {
    /// Makes a client. It sends nothing before the first [`Client::turn`].
    #[must_use]
    pub fn new(settings: &'a Settings) -> Self {
        let certificates = settings.certificates.iter().map(Kept::new).collect();
        Self { settings, certificates, right: None, done: Done::default(), said: false }
    }

    /// Returns the counts since the last call.
    pub fn take_done(&mut self) -> Done {
        std::mem::take(&mut self.done)
    }

    /// Orders each certificate that is due. Returns the time after which to call again, at most an hour.
    pub fn turn(&mut self) -> Duration {
        if self.right.is_none() {
            match Right::take(self.settings) {
                Ok(Some(right)) => {
                    self.right = Some(right);
                    self.certificates.iter_mut().for_each(|kept| kept.resume(self.settings));
                }
                Ok(None) => {
                    if !std::mem::replace(&mut self.said, true) {
                        log::info!("another server orders the certificates in {}", self.settings.folder().display());
                    }
                    return LOOK;
                }
                Err(why) => {
                    log::error!("{why}; certificates are not renewed");
                    return LONGEST_SLEEP / 10;
                }
            }
        }
        let (settings, done, mut https) = (self.settings, &mut self.done, None);
        let waits = self.certificates.iter_mut().map(|kept| {
            let wait = kept.wait(settings);
            if !wait.is_zero() {
                return wait;
            }
            if https.is_none() {
                match Https::new(settings.authorities.as_deref()) {
                    Ok(made) => https = Some(made),
                    Err(why) => {
                        done.failed += 1;
                        return kept.failed(settings, &Trouble::Unreachable(why));
                    }
                }
            }
            https.as_ref().map_or(LONGEST_SLEEP, |https| kept.renew(settings, https, done))
        });
        waits.min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }
}

impl<'a> Kept<'a> {
    pub(crate) fn new(names: &'a Names) -> Self {
        Self { names, failures: 0, not_before: None, progress: Progress::default() }
    }

    /// Continues with the state that the process before this one has left in files.
    pub(crate) fn resume(&mut self, settings: &Settings) {
        // Without the key, each attempt fails and says so.
        let Ok(key) = account_key(settings) else { return };
        let account = key.thumbprint();
        self.progress.draft = Draft::read(settings, self.names, &account);
        if let Some(pause) = Pause::read(settings, self.names, &account) {
            self.failures = pause.failures;
            self.not_before = Some(Instant::now() + pause.left());
            if let Some(why) = pause.describe(settings, self.names) {
                log::warn!("{why}");
            }
        }
    }

    /// Returns the time until the certificate must be ordered or renewed; zero means now.
    pub(crate) fn wait(&self, settings: &Settings) -> Duration {
        let pause = self.not_before.map_or(Duration::ZERO, |moment| moment.saturating_duration_since(Instant::now()));
        due(present(settings, self.names).as_ref(), self.names, SystemTime::now()).max(pause)
    }

    pub(crate) fn renew<W: World>(&mut self, settings: &Settings, world: &W, done: &mut Done) -> Duration {
        // A process that is killed during the attempt leaves this pause to the next one.
        let failures = self.failures.saturating_add(1);
        self.store(settings, &Pause::new(failures, pause(Failure::Unreachable, failures)));
        match renewed(settings, self.names, world, &mut self.progress) {
            Ok(identity) => {
                done.ordered += 1;
                log::info!("{}: a new certificate from {}, until {}", self.names, settings.directory, identity.last_day());
                self.failures = 0;
                // If a clock is wrong, here or at the authority, the new certificate may be due at once. The limit prevents a
                // loop of orders, also by restarts.
                let left = Duration::from_secs(identity.end.saturating_sub(now()));
                let limit = left.mul_f64(1.0 - RENEW_AFTER).min(LONGEST_SLEEP);
                self.not_before = Some(Instant::now() + limit);
                self.store(settings, &Pause::new(0, limit));
                self.wait(settings)
            }
            Err(trouble) => {
                done.failed += 1;
                self.failed(settings, &trouble)
            }
        }
    }

    fn failed(&mut self, settings: &Settings, trouble: &Trouble) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let failure = match trouble {
            Trouble::Refused { retry_after, .. } => Failure::Refused(*retry_after),
            // The authority counts a certificate that it may have issued.
            Trouble::Unreachable(_) if self.progress.draft.is_some() => Failure::Refused(None),
            Trouble::Unreachable(_) => Failure::Unreachable,
        };
        let pause = pause(failure, self.failures);
        self.not_before = Some(Instant::now() + pause);
        let names = self.names;
        log::error!("{names}: no certificate: {trouble}. The current one stays; the next attempt is in {} s", pause.as_secs());
        self.store(settings, &Pause::new(self.failures, pause));
        pause
    }

    /// Leaves a pause to the process after this one.
    fn store(&self, settings: &Settings, pause: &Pause) {
        let names = self.names;
        let stored = account_key(settings).and_then(|key| pause.write(settings, names, &key.thumbprint()));
        if let Err(why) = stored {
            log::warn!("{names}: a restart of the server does not obey this pause: {why}");
        }
    }
}

/// Orders a certificate, or continues with the progress of an earlier attempt, and writes the file of the certificate.
pub(crate) fn renewed<W: World>(
    settings: &Settings,
    names: &Names,
    world: &W,
    progress: &mut Progress,
) -> Result<Identity, Trouble> {
    let issued = match progress.unwritten.take() {
        Some(issued) if issued.identity.end > now() => issued,
        _ => issue(settings, names, world, &mut progress.draft)?,
    };
    if let Err(why) = replace(&settings.file(names), issued.content.as_bytes()) {
        progress.unwritten = Some(issued);
        return Err(Trouble::Unreachable(why));
    }
    progress.draft = None;
    Draft::remove(settings, names);
    Ok(issued.identity)
}

/// Gets a certificate from the authority.
fn issue<W: World>(settings: &Settings, names: &Names, world: &W, draft: &mut Option<Draft>) -> Result<Issued, Trouble> {
    let key = account_key(settings).map_err(Trouble::Unreachable)?;
    let mut session = Session::begin(world, &key, settings)?;
    let content = order(&mut session, names, draft)?;
    let useless = |why: &str| Trouble::Unreachable(format!("{}: its certificate cannot be used: {why}", settings.directory));
    let identity = Identity::of("of the authority", content.as_bytes()).map_err(|why| useless(&why))?;
    if !names.are(&identity.names) {
        return Err(useless("the certificate is for other names"));
    }
    if identity.end <= now() {
        // The server may have been down for longer than the life of the certificate.
        if let Some(draft) = draft {
            draft.give_up(settings, names);
        }
        return Err(useless("the certificate has expired; is the clock right?"));
    }
    Ok(Issued { content, identity })
}
