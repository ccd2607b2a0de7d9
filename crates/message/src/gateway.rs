//! The variables in which a web server in front describes a request: the meta-variables of CGI (RFC 3875, section 4.1) and
//! those that the configuration of the web server adds.

use crate::Span;

/// The role of a FastCGI application for a request (FastCGI 1.0, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A response, as from CGI programs.
    #[default]
    Responder,
    /// A decision whether a request is permitted.
    Authorizer,
    /// A response made from a file that the web server sends along.
    Filter,
}

impl Role {
    /// The value of FCGI_ROLE.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Responder => "RESPONDER",
            Self::Authorizer => "AUTHORIZER",
            Self::Filter => "FILTER",
        }
    }
}

/// A variable, as spans of the bytes in which the variables of a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name, as sent.
    pub name: Span,
    /// The value, as sent.
    pub value: Span,
    /// The well-known variable of this name; `None` for others.
    pub known: Option<KnownVariable>,
}

macro_rules! known_variables {
    ($($variant:ident $name:literal,)*) => {
        /// The variables that the server itself reads, and those that nearly every request carries.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum KnownVariable {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl KnownVariable {
            /// All well-known variables.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name of the variable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the variable with this name; `None` for other names. Names are case-sensitive (FastCGI 1.0, section 5.2,
            /// and every web server).
            #[inline]
            #[must_use]
            pub fn lookup(name: &[u8]) -> Option<Self> {
                // The compiler compares the length first.
                match name {
                    $(name if name == $name.as_bytes() => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

known_variables! {
    RequestMethod "REQUEST_METHOD",
    ScriptName "SCRIPT_NAME",
    PathInfo "PATH_INFO",
    RequestUri "REQUEST_URI",
    QueryString "QUERY_STRING",
    ServerName "SERVER_NAME",
    ServerPort "SERVER_PORT",
    ServerProtocol "SERVER_PROTOCOL",
    RemoteAddr "REMOTE_ADDR",
    RemotePort "REMOTE_PORT",
    ContentType "CONTENT_TYPE",
    ContentLength "CONTENT_LENGTH",
    ScriptFilename "SCRIPT_FILENAME",
    ServerSoftware "SERVER_SOFTWARE",
    Https "HTTPS",
    GatewayInterface "GATEWAY_INTERFACE",
    DocumentUri "DOCUMENT_URI",
    DocumentRoot "DOCUMENT_ROOT",
    RequestScheme "REQUEST_SCHEME",
    RedirectStatus "REDIRECT_STATUS",
    PathTranslated "PATH_TRANSLATED",
    ServerAddr "SERVER_ADDR",
    RemoteUser "REMOTE_USER",
    AuthType "AUTH_TYPE",
}
