# frozen_string_literal: true

# Writes the Makefile of the extension. ORIBI_INCLUDE_DIR and ORIBI_LIB_DIR say where oribi.h and liboribi.a are; without them,
# they are looked for in the checkout that this file is part of.

require "mkmf"

checkout = File.expand_path("../../../..", __dir__)
include_directory = ENV.fetch("ORIBI_INCLUDE_DIR", File.join(checkout, "crates/capi/include"))
library = File.join(ENV.fetch("ORIBI_LIB_DIR", File.join(checkout, "target/release")), "liboribi.a")

unless File.exist?(File.join(include_directory, "oribi.h"))
  abort "oribi.h is not in #{include_directory}: set ORIBI_INCLUDE_DIR to the directory that has it"
end
abort "#{library} does not exist: run `make build` at the top of the checkout, or set ORIBI_LIB_DIR" unless File.exist?(library)

$INCFLAGS << " -I#{include_directory}"
$CFLAGS << " -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-declaration-after-statement -fvisibility=hidden"
$LOCAL_LIBS << " #{library}"
$libs << " -lpthread -ldl -lm -lrt -lutil"
# Where liboribi.a has the I/O model libevent.
have_library("event_core")
# The symbols of the Rust library are nobody's business: another extension may hold another Rust library.
$DLDFLAGS << " -Wl,--exclude-libs,ALL" if RUBY_PLATFORM.include?("linux")

# Since Ruby 3.2.
have_func("rb_internal_thread_add_event_hook", "ruby/thread.h")

create_makefile("oribi/oribi")
