//! Reads `oribi.toml` again while the server serves: in the first process, and its routes once more in each edge.
//!
//! An edge can neither open files nor read the environment. So the first process sends it the content of all files, the variables
//! in them, the error pages and the paths of directories; the code that makes routes of these is the same.

use crate::options::Mode;
use crate::ready_app::{Examined, ReadyApp, ReadyFile, longest_graceful, server_part};
use crate::routes::{self, Disk, RealDisk};
use oribi_config_file::{SourceFiles, examine, parse, source_files};
use oribi_server::config::{Config, Origin, Settings, masked};
use oribi_server::directory::absolute;
use oribi_server::process::{FilePlan, Plans, Sources};
use oribi_server::routes::{EdgePlan, PlanReader, pack, unpack};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file of a server, to be read again.
#[derive(Debug)]
pub struct FilePlans {
    file: PathBuf,
    /// The options of the command line and of the environment.
    config: Config,
    /// The settings of the server.
    server: Settings,
}

impl FilePlans {
    pub fn new(file: &Path, config: &Config, server: &Settings) -> Self {
        Self { file: file.to_owned(), config: config.clone(), server: server.clone() }
    }

    fn plan_of(&self, file: &Path) -> Result<FilePlan, String> {
        let variables = RefCell::new(Vec::new());
        let environment = |name: &str| {
            let value = std::env::var(name).ok();
            variables.borrow_mut().push((name.to_owned(), value.clone()));
            value
        };
        let mut files = Vec::new();
        let mut keep = |path: String, content: &[u8]| files.push((path, content.to_vec()));
        let (content, review) = examine(file, &environment, &mut keep);
        let (config, served) = (&self.config, Some(&self.server));
        let examined = Examined { file, content: &content, review, config, served };
        let ReadyFile { server, apps, warnings } = examined.ready(Mode::Serve).map_err(|trouble| trouble.message.clone())?;
        let part = server_part(&server, &content).map_err(|trouble| trouble.message.clone())?;
        if longest_graceful(&apps).is_some_and(|longest| longest > self.server.timeouts.graceful) {
            return Err("graceful-timeout is longer than that of any app at the start; oribi ctl upgrade applies it".to_owned());
        }
        let disk = RecordedDisk::default();
        routes::plan(&content, &self.server, &disk, &|_| 0)?;
        let notes = apps.iter().flat_map(|app| app.notes.clone());
        let warnings = warnings.to_string().lines().map(str::to_owned).chain(notes).collect();
        let text = PlanText { files, variables: variables.into_inner(), disk }.pack();
        Ok(FilePlan { server: part, apps: apps.into_iter().map(ReadyApp::planned).collect(), text, warnings })
    }
}

impl Plans for FilePlans {
    fn plan(&self, file: Option<&Path>) -> Result<FilePlan, String> {
        self.plan_of(file.unwrap_or(&self.file)).map_err(|why| masked(&why).to_string())
    }

    fn sources(&self, file: Option<&Path>) -> Sources {
        let file = file.unwrap_or(&self.file);
        let SourceFiles { patterns, files } = source_files(&absolute(file).unwrap_or_else(|_| file.to_owned()));
        Sources { patterns, files }
    }
}

impl PlanReader for FilePlans {
    fn read(&self, plan: &[u8]) -> Result<EdgePlan, String> {
        let unusable = || "the plan from the master cannot be understood".to_owned();
        let parts = unpack(plan).ok_or_else(unusable)?;
        let [places, text] = parts[..] else { return Err(unusable()) };
        let (mut names, mut apps) = (Vec::new(), Vec::new());
        for place in unpack(places).ok_or_else(unusable)? {
            let place = unpack(place).ok_or_else(unusable)?;
            let (name, arguments) = place.split_first().ok_or_else(unusable)?;
            names.push(String::from_utf8_lossy(name).into_owned());
            apps.push(settings(arguments)?);
        }
        let PlanText { files, variables, disk } = PlanText::unpack(text).ok_or_else(unusable)?;
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, content)| (path.as_str(), content.as_slice())).collect();
        let variable = |wanted: &str| variables.iter().find(|(name, _)| name == wanted)?.1.clone();
        let read = parse(&files, &variable).map_err(|findings| findings.to_string())?;
        let place = |name: &str| names.iter().position(|known| known == name).unwrap_or(usize::MAX);
        let routes = routes::plan(&read.config, &self.server, &disk, &place)?;
        let routes = routes.map(|routes| routes.compile(&read.config)).transpose()?;
        if let Some(missing) = read.config.apps.iter().find(|app| place(&app.name) == usize::MAX) {
            return Err(format!("there is no place for {}", missing.name));
        }
        Ok(EdgePlan { routes, apps })
    }
}

/// Makes the settings of an app from its options, which are valid.
fn settings(arguments: &[&[u8]]) -> Result<Settings, String> {
    let mut config = Config::with(|_| None, 1);
    for argument in arguments {
        let text = String::from_utf8_lossy(argument);
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        config.set(name, value, Origin::CommandLine).map_err(|error| masked(&error.to_string()).to_string())?;
    }
    config.finish().map_err(|error| masked(&error.to_string()).to_string())
}

/// Everything from which routes are made.
#[derive(Debug)]
struct PlanText {
    files: Vec<(String, Vec<u8>)>,
    variables: Vec<(String, Option<String>)>,
    disk: RecordedDisk,
}

impl PlanText {
    fn pack(&self) -> Vec<u8> {
        let files = pack(self.files.iter().flat_map(|(path, content)| [path.as_bytes(), content]));
        let given = self.variables.iter().filter_map(|(name, value)| Some([name.as_str(), value.as_deref()?]));
        let variables = pack(given.flatten());
        let disk = &self.disk;
        let pages = disk.files.borrow();
        let pages = pack(pages.iter().flat_map(|(path, content)| [path.as_os_str().as_bytes(), content]));
        let directories = disk.directories.borrow();
        let both = |(path, absolute): &(PathBuf, PathBuf)| [path, absolute].map(|path| path.as_os_str().as_bytes().to_vec());
        pack([files, variables, pages, pack(directories.iter().flat_map(both))])
    }

    fn unpack(text: &[u8]) -> Option<Self> {
        fn pairs(text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
            let parts = unpack(text)?;
            let (pairs, rest) = parts.as_chunks::<2>();
            rest.is_empty().then(|| pairs.iter().map(|[one, other]| (*one, *other)).collect())
        }
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let words = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let parts = unpack(text)?;
        let [files, variables, pages, directories] = parts[..] else { return None };
        let files = pairs(files)?.into_iter().map(|(path, content)| Some((words(path)?, content.to_vec())));
        let variables = pairs(variables)?.into_iter().map(|(name, value)| Some((words(name)?, Some(words(value)?))));
        let pages = pairs(pages)?.into_iter().map(|(file, content)| (path(file), content.to_vec())).collect();
        let directories = pairs(directories)?.into_iter().map(|(one, other)| (path(one), path(other))).collect();
        let disk = RecordedDisk { files: RefCell::new(pages), directories: RefCell::new(directories), is_record: true };
        Some(Self { files: files.collect::<Option<_>>()?, variables: variables.collect::<Option<_>>()?, disk })
    }
}

/// The disk, with a record of what was read; or the record alone, in an edge.
#[derive(Debug, Default)]
struct RecordedDisk {
    /// Error pages and files of users.
    files: RefCell<Vec<(PathBuf, Vec<u8>)>>,
    /// Directories, with their absolute paths.
    directories: RefCell<Vec<(PathBuf, PathBuf)>>,
    /// Whether there is only the record.
    is_record: bool,
}

impl RecordedDisk {
    /// Returns the content of a file from the record, or reads it for the record.
    fn recorded(&self, path: &Path, read: impl Fn(&Path) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
        if self.is_record {
            let files = self.files.borrow();
            let found = files.iter().find(|(known, _)| known == path);
            return found.map(|(_, content)| content.clone()).ok_or_else(|| "it was not sent".to_owned());
        }
        let content = read(path)?;
        self.files.borrow_mut().push((path.to_owned(), content.clone()));
        Ok(content)
    }
}

impl Disk for RecordedDisk {
    fn page(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.recorded(path, |path| RealDisk.page(path))
    }

    fn users(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.recorded(path, |path| RealDisk.users(path))
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.is_record || RealDisk.is_directory(path)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        if self.is_record {
            let directories = self.directories.borrow();
            return directories
                .iter()
                .find(|(known, _)| known == path)
                .map_or_else(|| path.to_owned(), |(_, found)| found.clone());
        }
        let absolute = RealDisk.absolute(path);
        self.directories.borrow_mut().push((path.to_owned(), absolute.clone()));
        absolute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_make_the_same_routes_without_the_files() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("oribi.toml");
        std::fs::create_dir(folder.path().join("site")).expect("it is ours");
        std::fs::write(folder.path().join("busy.html"), "<p>busy").expect("it is ours");
        std::fs::write(
            &file,
            "[app.a]\nproxy = \"http://127.0.0.1:9\"\n[[route]]\nmatch = { path = \"/f/*\" }\nfiles = { root = \"site\" }\n\
             [[route]]\napp = \"a\"\nerror-pages = { 503 = \"busy.html\" }\n",
        )
        .expect("it is ours");
        let mut config = Config::with(|_| None, 1);
        config.set("edge", "on", Origin::Default).expect("it is valid");
        let server = config.finish().expect("it is valid");
        let plans = FilePlans::new(&file, &config, &server);
        let plan = plans.plan(None).expect("the file has no mistake");
        folder.close().expect("it is ours");
        let app = &plan.apps[0];
        let place = pack(std::iter::once(&app.name).chain(&app.arguments));
        let read = plans.read(&pack([pack([&pack([""]), &place]), plan.text.clone()])).expect("nothing is missing");
        assert_eq!(read.apps.len(), 2);
        assert_eq!(read.apps[1].queue_timeout, app.settings.queue_timeout);
        let routes = read.routes.expect("there are routes");
        assert!(routes.directories().next().is_some_and(|directory| directory.ends_with("site") && directory.is_absolute()));
        let why = plans.read(&pack([pack([pack([""])]), plan.text])).expect_err("the app has no place");
        assert!(why.contains("no place for a"), "{why}");
        assert!(plans.read(b"nonsense").is_err());
    }

    #[test]
    fn a_changed_value_of_a_field_is_a_difference_and_users_are_none() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("oribi.toml");
        let users = folder.path().join("users");
        let user = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
        let write_users = |count| {
            let lines: String = (0..count).map(|number| format!("user{number}:{user}\n")).collect();
            std::fs::write(&users, lines).expect("it is ours");
        };
        write_users(9);
        let mut config = Config::with(|_| None, 1);
        config.set("edge", "on", Origin::Default).expect("it is valid");
        let plans = FilePlans::new(&file, &config, &config.finish().expect("it is valid"));
        let routes_with = |filter: &str| {
            let text = format!("[app.a]\nproxy = \"http://127.0.0.1:9\"\n[[route]]\napp = \"a\"\n{filter}\n");
            std::fs::write(&file, text).expect("it is ours");
            plans.plan(None).expect("the file has no mistake").server.routes
        };
        for filter in ["request-fields = { set = { Authorization = \"V\" } }", "response-fields = { add = { X-A = \"V\" } }"] {
            let [one, again, other] = ["1", "1", "2"].map(|value| routes_with(&filter.replace('V', value)));
            assert!(one == again && one != other, "{filter}");
        }
        // They are watched, and are sent to edges with each plan.
        let guarded = || routes_with("auth = { htpasswd = \"users\" }");
        let of_nine = guarded();
        assert!((0..5).all(|_| guarded() == of_nine), "the file is as it was");
        write_users(8);
        assert_eq!(guarded(), of_nine);
    }
}
