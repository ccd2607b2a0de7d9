# Oribi's commands. `make help` lists them.

PREFIX  ?= /usr/local
DESTDIR ?=
# The perl whose modules the Debian packages of the set-up are.
PERL    ?= /usr/bin/perl
# The ruby for which the Ruby host is built; the tests run in a second one, see setup/debian-root.sh.
RUBY    ?= /usr/bin/ruby
# Where `make serve` listens.
PORT    ?= 5000
# Flags of `make study`, as in STUDY='--resume --only short'.
STUDY   ?=
# The time for `make endure`.
MINUTES ?= 10
# Seconds for each fuzz target.
TIME    ?= 600

# The tools that are built when they are needed. A newer version is a line changed here.
CARGO_DENY = 0.20.2
CARGO_VENDOR_FILTERER = 0.5.18
CARGO_CYCLONEDX = 0.5.7
CARGO_FUZZ = 0.13.2
MDBOOK     = 0.5.4
# PyPI's package ziglang. Other versions take other options: see packages/tarball/cc.
ZIG        = 0.13.0

export CARGO_TARGET_DIR := $(CURDIR)/target
export PERL RUBY
# `oribi` runs the perl and the ruby for which the hosts were built.
export ORIBI_PERL := $(PERL)
export ORIBI_RUBY := $(RUBY)
# Where rustup puts cargo, for shells that were opened before it did.
export PATH := $(PATH):$(HOME)/.cargo/bin

# The build: `release`, or `debug`, which is faster to build, for tests. Programs and hosts of one build belong together: the
# programs are in target/bin, and the hosts are linked with that build.
BUILT   ?= release
export ORIBI_LIB_DIR = $(CURDIR)/target/$(BUILT)
built   = grep -qsx $(BUILT) target/bin/built

installed = $(DESTDIR)$(PREFIX)
libevent  = oribi-cli/libevent,liboribi/libevent
of_release = --release --package oribi-cli --package liboribi
# The tests are built next: they have these features in common with the whole workspace.
of_debug   = --workspace
# The program with Lua 5.4 shares all crates but three with the other one, in one folder of what cargo keeps (since 1.91).
lua54     = --package oribi-cli --no-default-features --features lua54,libevent --target-dir target/lua54

.PHONY: build help serve check test-fast test hunt load endure kubernetes sanitize leak bench autobahn study fuzz docs book pictures install install-perl install-gem packages cpan gem binary-gem tarball images dist uninstall clean setup-build setup-check setup-test setup-core setup-packages setup-tarball setup-gem setup-images setup-book setup-bench setup-study setup-kubernetes

build: setup-build ## build target/release/oribi, the same with Lua 5.4, and the Perl and Ruby hosts beside it
	cargo build --locked $(of_$(BUILT)) --features $(libevent)
	CARGO_BUILD_BUILD_DIR=$(CARGO_TARGET_DIR) cargo build --locked $(filter --release,$(of_$(BUILT))) $(lua54)
	@mkdir -p target/bin
	@ln -f target/$(BUILT)/oribi target/bin/oribi
	@ln -f target/lua54/$(BUILT)/oribi target/bin/oribi-lua5.4
	@ln -f target/lua54/$(BUILT)/oribi target/$(BUILT)/oribi-lua5.4
	@cd hosts/perl && (grep -qsF 'target/$(BUILT)/liboribi.a' Makefile && [ Makefile -nt Makefile.PL ] && \
		for source in src/*.c; do grep -qF "$${source%c}" Makefile || exit 1; done) || MAKEFLAGS= $(PERL) Makefile.PL
	@cd hosts/perl && MAKEFLAGS= $(MAKE) --no-print-directory --silent
	@$(RUBY) hosts/ruby/ext/oribi/build.rb
	@echo $(BUILT) >target/bin/built

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

serve: build ## build, then serve examples/hello.psgi on http://127.0.0.1:5000 until Ctrl-C
	@echo "Serving examples/hello.psgi on http://127.0.0.1:$(PORT); Ctrl-C stops."
	@exec $(PERL) setup/serve.pl target/bin/oribi examples/hello.psgi --host 127.0.0.1 --port $(PORT)

check: setup-check ## format, lints, architecture and the tests of the small crates: before each commit (2 minutes, then 20 seconds)
	@tests/run --set check

test-fast: BUILT = debug
test-fast: setup-test build ## the same, and what needs no whole application, in one shape of the processes (15 minutes, then 8)
	@tests/run --set fast

test: BUILT = debug
test: setup-test build ## build, then run every test and every linter (half an hour)
	@setup/debian-root-run.sh 13 ruby hosts/ruby/ext/oribi/build.rb
	@tests/run

hunt: BUILT = debug
hunt: setup-test build ## run the test TEST=NAME a hundred times beside load (STEP=NAME for one step of tests/steps, TIMES=N)
	@tests/hunt '$(TEST)' '$(STEP)' $(TIMES)

load: setup-test build ## hold 8192 busy keep-alive connections for 20 seconds, then 65536 idle ones
	@tests/load/keepalive
	cargo build --release --locked --package oribi-load
	@tests/load/idle

endure: setup-test build ## reload, upgrade, recycle, scale and kill the processes of servers for MINUTES=10, under load
	ORIBI=$(CURDIR)/target/bin/oribi ORIBI_ENDURE_MINUTES=$(MINUTES) cargo test --workspace --features $(libevent) --locked --test endure -- --nocapture

kubernetes: setup-kubernetes build ## replace the pods of a real Kubernetes under load (needs root, and Go to build it once)
	@tests/kubernetes/run

sanitize: setup-test build ## let odd apps run under the address sanitizer and valgrind (half an hour)
	@tests/sanitize/build
	@ORIBI_SANITIZE=long $(PERL) -S prove --verbose tests/sanitize/hosts.t

leak: setup-test build ## answer a million requests and compare the memory with that of ten thousand
	@cd hosts/perl && $(PERL) -Mblib xt/leak.t
	@cd hosts/ruby && $(RUBY) -Ilib xt/leak.rb

bench: setup-bench build ## measure Oribi beside its peers; writes bench/results/
	cargo run --release --locked --package oribi-bench

autobahn: setup-bench build ## run Autobahn's cases of WebSocket against Ruby, Perl and Lua (hours; needs PYTHON2=python2.7)
	@setup/autobahn/install
	@bench/autobahn/run

study: setup-study ## compare I/O and network models (45 minutes); writes bench/study/results/ and docs/io-models.md
	@bench/study/build --release
	target/study/release/oribi-study --report $(STUDY)

fuzz: setup-build ## fuzz each target for TIME=600 seconds (needs a nightly Rust beside the stable one)
	@setup/cargo-tool.sh cargo-fuzz $(CARGO_FUZZ)
	@fuzz/run $(TIME)

docs: setup-build ## write docs/options.md, and the table of the Ruby host, anew from the tables of settings
	ORIBI_WRITE_DOCS=1 cargo test --quiet --locked --package oribi-cli --test options_manual

book: setup-book ## make a book of docs/, with a search, in target/book
	@setup/book/build
	@echo "The book begins at target/book/index.html."

pictures: setup-test build ## draw the pictures of the dashboard and of oribi top in docs/ anew (six minutes)
	$(PERL) tests/clients/programs/dashboard_pictures.pl
	ORIBI_WRITE_DOCS=1 $(PERL) -S prove tests/clients/top.t

install: ## install what `make build` built below PREFIX=/usr/local (and DESTDIR)
	@$(built) || { echo "Nothing is built yet, or only for tests: make build, then make install." >&2; exit 1; }
	install -D -m 755 target/bin/oribi "$(installed)/bin/oribi"
	install -m 755 target/bin/oribi-lua5.4 "$(installed)/bin/oribi-lua5.4"
	ln -sf oribi "$(installed)/bin/luafcgid"
	ln -sf oribi "$(installed)/bin/ahttpd"
	rm -rf "$(installed)/lib/oribi"
	install -d "$(installed)/lib/oribi/perl" "$(installed)/lib/oribi/ruby" "$(installed)/share/doc/oribi"
	cp -R hosts/perl/blib/lib hosts/perl/blib/arch "$(installed)/lib/oribi/perl/"
	cp -R hosts/ruby/lib/. "$(installed)/lib/oribi/ruby/"
	find "$(installed)/lib/oribi" -name .exists -delete
	cp -R README.md ARCHITECTURE.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE docs deploy examples \
		"$(installed)/share/doc/oribi/"

install-perl: ## install the modules where perl finds them by itself, for plackup -s Oribi
	@$(built) || { echo "Nothing is built yet, or only for tests: make build, then make install-perl." >&2; exit 1; }
	cd hosts/perl && MAKEFLAGS= $(MAKE) --no-print-directory pure_install DESTDIR=$(DESTDIR)

install-gem: ## install the gem where ruby finds it by itself, for rackup -s oribi and rails server -u oribi
	@$(built) || { echo "Nothing is built yet, or only for tests: make build, then make install-gem." >&2; exit 1; }
	cd hosts/ruby && $(RUBY) -S gem build --quiet --output $(CURDIR)/target/ruby/oribi.gem oribi.gemspec
	$(RUBY) -S gem install --quiet --local --no-document $(if $(DESTDIR),--build-root "$(DESTDIR)") target/ruby/oribi.gem

gem: setup-core ## make the source gem dist/oribi-VERSION.gem, which is compiled where it is installed
	@packages/gem/build

binary-gem: setup-gem ## make the gems dist/oribi-VERSION-PROCESSOR-linux-gnu.gem, which are installed without a compiler (ten minutes)
	@packages/gem/build-binary

cpan: setup-core ## build the distribution for CPAN into dist/, with the source of the core
	@packages/cpan/build

tarball: setup-tarball ## make dist/oribi-VERSION-PROCESSOR-linux-gnu.tar.gz for any Linux, on x86-64 and 64-bit ARM (15 minutes)
	@packages/tarball/build

packages: setup-packages build ## build the packages for Debian 12 and 13 and for Enterprise Linux 9 into dist/ (ten minutes)
	@packages/debian/build 12
	@packages/debian/build 13
	@packages/rpm/build

dist: packages cpan gem binary-gem tarball ## build all that a release consists of into dist/, with checksums and an inventory of all crates (35 minutes)
	@packages/inventory

images: setup-images ## build container images from the packages for Debian 12, into target/images (a minute; needs root)
	@packages/images/build

uninstall: ## remove what `make install`, `make install-perl` and `make install-gem` installed
	rm -rf "$(installed)/bin/oribi" "$(installed)/bin/oribi-lua5.4" "$(installed)/bin/luafcgid" "$(installed)/bin/ahttpd" \
		"$(installed)/lib/oribi" "$(installed)/share/doc/oribi"
	@if command -v $(PERL) >/dev/null; then $(PERL) setup/uninstall_perl.pl $(DESTDIR); fi
	@if command -v $(RUBY) >/dev/null; then $(RUBY) setup/uninstall_gem.rb $(DESTDIR); fi

clean: ## remove everything that was built
	@for folder in target/images target/kubernetes; do \
		[ ! -d $$folder ] || [ -w $$folder ] || sudo rm -rf --one-file-system $$folder || exit 1; done
	cargo clean
	rm -rf dist
	@if [ -f hosts/perl/Makefile ]; then $(MAKE) -C hosts/perl realclean; fi

setup-build:
	@setup/toolchain.sh
	@setup/debian.sh build

setup-check: setup-build
	@setup/toolchain.sh lint

setup-test: setup-packages
	@setup/toolchain.sh lint
	@setup/debian.sh build test images
	@setup/cargo-tool.sh cargo-deny $(CARGO_DENY)
	@setup/h2spec/build
	@setup/collector/build
	@setup/sslyze/install
	@cargo fetch --quiet --locked

setup-core: setup-build
	@setup/cargo-tool.sh cargo-vendor-filterer $(CARGO_VENDOR_FILTERER) sha-rs

setup-packages: setup-core setup-book
	@setup/debian.sh packages
	@setup/debian-root.sh 12
	@setup/debian-root.sh 13
	@setup/cargo-tool.sh cargo-cyclonedx $(CARGO_CYCLONEDX)

setup-tarball: setup-core
	@setup/debian.sh packages tarball
	@setup/debian-root.sh 12
	@setup/rust-target.sh x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
	@setup/zig.sh $(ZIG)

setup-gem: setup-tarball
	@setup/debian-root.sh 13
	@setup/rubies.sh

setup-images:
	@setup/debian.sh packages images
	@setup/debian-root.sh 12

setup-book:
	@setup/toolchain.sh
	@setup/cargo-tool.sh mdbook $(MDBOOK) search

setup-bench:
	@setup/debian.sh build bench

setup-kubernetes:
	@setup/debian.sh kubernetes

setup-study:
	@setup/toolchain.sh
	@setup/debian.sh build study
