//! A host that serves only files.

use crate::Options;
use crate::root::NotFound;
use crate::site::{Site, send_page};
use oribi_host::{After, Host, Reply, Request, Runtime};
use oribi_message::{ResponseHead, Role};
use std::io;
use std::path::PathBuf;

const ALLOW: (&[u8], &[u8]) = (b"Allow", b"GET, HEAD, OPTIONS");

/// Serves the files of a directory.
#[derive(Clone, Debug)]
pub struct FileRuntime {
    directory: PathBuf,
    options: Options,
}

impl FileRuntime {
    /// Serves the files of `directory`. Each lane opens it when it starts.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn new(directory: PathBuf, options: Options) -> io::Result<Self> {
        // An error must show before a worker is forked.
        Site::open(&directory, &options)?;
        Ok(Self { directory, options })
    }
}

impl Runtime for FileRuntime {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        match Site::open(&self.directory, &self.options) {
            Ok(site) => Ok(Box::new(FileHost { site })),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct FileHost {
    site: Site,
}

impl Host for FileHost {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        match request.head.method() {
            // A file cannot authorize or filter a request, so only a request for a response gets one.
            _ if request.gateway.is_some_and(|gateway| gateway.role != Role::Responder) => send_page(403, &[], reply),
            b"GET" | b"HEAD" => {
                if let Err((reply, why)) = self.site.answer(request, request.head.path(), b"", true, reply) {
                    refuse(&why, reply);
                }
            }
            b"OPTIONS" => {
                // It fails only if the client has gone.
                let _ = reply.send(ResponseHead { status: 204, fields: &[ALLOW] }, &[]);
            }
            _ => send_page(405, &[ALLOW], reply),
        }
        After::default()
    }

    fn is_prompt(&self) -> bool {
        true
    }
}

fn refuse(why: &NotFound, reply: Reply<'_>) {
    let status = match why {
        NotFound::Missing => 404,
        NotFound::Forbidden => 403,
        NotFound::Failed(error) => {
            log::error!("cannot look for a file: {error}");
            503
        }
    };
    send_page(status, &[], reply);
}
