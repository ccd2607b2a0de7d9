//! Files in front of the app (`--files`).

use super::Handler;
use crate::lane::Lane;
use oribi_config::Settings;
use oribi_files::Mounts;
use oribi_host::Reply;
use oribi_listen::Listener;
use oribi_source::{LentRequest, Source};
use std::cell::RefCell;
use std::io;

/// Answers with files from the configured folders.
#[derive(Debug)]
pub struct Files(RefCell<Mounts>);

impl Files {
    /// Opens the folders of `settings`. `None` without any.
    ///
    /// # Errors
    /// A folder cannot be opened.
    pub fn of(settings: &Settings) -> io::Result<Option<Self>> {
        let files = &settings.files;
        if files.mounts.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self(RefCell::new(Mounts::open(&files.mounts, &files.options)?))))
    }

    /// Answers a request for one of the files, and returns any other.
    pub fn answer<S: Source>(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        self.answer_as(None, true, lane, exchange, listeners)
    }

    /// Answers a request with the file at another path than its own, and returns it if there is none. `redirects`: whether the path
    /// of a directory without its slash at the end is redirected; otherwise its index is sent.
    pub fn answer_at<S: Source>(
        &self,
        path: &[u8],
        redirects: bool,
        lane: &Lane<'_, S>,
        exchange: S::Exchange,
        listeners: &[Listener],
    ) -> Option<S::Exchange> {
        self.answer_as(Some(path), redirects, lane, exchange, listeners)
    }

    fn answer_as<S: Source>(
        &self,
        path: Option<&[u8]>,
        redirects: bool,
        lane: &Lane<'_, S>,
        exchange: S::Exchange,
        listeners: &[Listener],
    ) -> Option<S::Exchange> {
        lane.source().expect_prompt_answers(true);
        let request = exchange.request(listeners);
        let path = path.unwrap_or_else(|| request.head.path());
        let answered = self.0.borrow_mut().answer_at(path, redirects, &request, Reply::new(lane, exchange.id()));
        if let Err(reply) = answered {
            let _for_the_host = reply.detach();
            return Some(exchange);
        }
        lane.take_back(exchange);
        None
    }
}

impl<S: Source> Handler<S> for Files {
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        Self::answer(self, lane, exchange, listeners)
    }
}
