# frozen_string_literal: true

# Writes the Makefile of the extension; library.rb says which liboribi.a it is linked with. In a gem, it also puts the program
# `oribi` into `libexec`.

require "mkmf"
require_relative "core"
require_relative "library"

library = OribiLibrary.find
program = library&.program if OribiCore.packed?
wanted = OribiCore.packed? ? [("liboribi" unless library), ("oribi-cli" unless program)].compact : []
OribiCore.build(wanted, Dir.pwd) unless wanted.empty?
if OribiCore.packed?
  home = File.expand_path("../../libexec", __dir__)
  FileUtils.mkdir_p(home)
  FileUtils.install(program || "oribi", File.join(home, "oribi"), mode: 0o755)
  FileUtils.rm_f("oribi")
end
built = library.nil?
library ||= OribiLibrary.new(OribiLibrary.own_headers, File.expand_path("liboribi.a"))

$INCFLAGS << " -I#{library.headers}"
$CFLAGS << " -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-declaration-after-statement -fvisibility=hidden"
$LOCAL_LIBS << " #{library.archive}"
$libs << " #{library.needs}"
# Needed if liboribi.a has the I/O model libevent; otherwise the linker leaves it out.
have_library("event_core")
# Hides the symbols of the Rust library, because another extension may contain another Rust library.
$DLDFLAGS << " -Wl,--exclude-libs,ALL -Wl,--as-needed" if RUBY_PLATFORM.include?("linux")
# Nobody debugs what is in a gem, and symbols would be most of its size.
$DLDFLAGS << " -Wl,--strip-all" if OribiCore.packed? && RUBY_PLATFORM.include?("linux")

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

create_makefile("oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi")
File.write("Makefile", <<~MAKE, mode: "a") if built
  # The installed gem does not keep the library.
  install: remove-library
  remove-library: install-so
  \trm -f #{library.archive}
MAKE
