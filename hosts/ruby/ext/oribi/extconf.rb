# frozen_string_literal: true

# Writes the Makefile of the extension. ORIBI_INCLUDE_DIR and ORIBI_LIB_DIR name the directories of oribi.h and liboribi.a; by
# default both files are looked for in the checkout that contains this file.

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
# Needed if liboribi.a has the I/O model libevent.
have_library("event_core")
# Hides the symbols of the Rust library, because another extension may contain another Rust library.
$DLDFLAGS << " -Wl,--exclude-libs,ALL" if RUBY_PLATFORM.include?("linux")

# Since Ruby 3.2.
have_func("rb_internal_thread_add_event_hook", "ruby/thread.h")
# Since Ruby 3.3.
have_func("rb_postponed_job_preregister", "ruby/debug.h")
have_func("rb_profile_thread_frames", "ruby/debug.h")

# Ruby does not publish the layout of its hash table entries, so the layout that environment.c expects is tested here. If the
# test fails, or cannot run because the extension is built for another machine, environment.c adds the entries of an environment
# key by key.
believed = File.read(File.join(__dir__, "table_layout.h"))
if have_struct_member("struct st_table", "entries_start", "ruby/st.h") && try_run(<<~C)
  #include <ruby.h>
  #{believed}
  int main(void) { return ruby_setup() == 0 && table_layout_is_as_believed() ? 0 : 1; }
C
  $defs << "-DORIBI_TABLES_ARE_KNOWN"
end

create_makefile("oribi/oribi")
