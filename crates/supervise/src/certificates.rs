//! Reads certificates again whenever the app is loaded again, and when their files change.

use super::certificate_files::CertificateFiles;
use super::edges::Edges;
use oribi_listen::{Listener, read_again};

/// Reads the certificates of these listeners again, and passes them to the edges, if there are any. If one is unusable, all
/// stay as they are.
pub(super) fn renew(files: &mut CertificateFiles, listeners: &[Listener], edges: Option<&Edges<'_>>) {
    files.were_read();
    match read_again(listeners) {
        Ok(false) => {}
        Ok(true) => {
            log::info!("the certificates were read again");
            if let Some(edges) = edges {
                edges.give_certificates(listeners);
            }
        }
        Err(why) => log::error!("{why}; the present certificates stay"),
    }
}
