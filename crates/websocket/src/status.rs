//! Status codes and payloads of close frames (RFC 6455, sections 5.5.1 and 7.4).

use crate::fault::Mistake;

/// The code that stands for a close frame without one. No frame has it.
pub(crate) const NO_CODE: u16 = 1005;

/// Whether a close frame may have `code`: those of section 7.4.1 and of the registry of IANA that are meant for frames, and
/// those of libraries, frameworks and apps.
pub(crate) const fn is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Splits the payload of a close frame into its code and its reason.
pub(crate) fn parse(payload: &[u8]) -> Result<(u16, &str), Mistake> {
    match payload {
        [] => Ok((NO_CODE, "")),
        [_] => Err(Mistake::ShortClose),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !is_valid(code) {
                return Err(Mistake::CloseCode);
            }
            Ok((code, std::str::from_utf8(reason).map_err(|_| Mistake::NotUtf8)?))
        }
    }
}
