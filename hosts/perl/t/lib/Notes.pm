package Notes;

# A file in which the processes and interpreters of a test note what happens to them.

use strict;
use warnings;
use Exporter   qw(import);
use File::Temp ();
use TestServer ();

our @EXPORT = qw(note_down noted noted_like times_noted forget_notes take_own_notes);

# A variable of the package: a lexical would be gone, and the directory with it, when this file has been read.
our $directory = File::Temp->newdir;
# A plain string: it is used in destructors, when the object above may be gone.
my $path = "$directory/notes";

# In one piece, because several processes may write at once.
sub note_down {
    my ($text) = @_;
    open my $handle, '>>', $path or die $!;
    syswrite $handle, "$text\n";
    return close $handle;
}

sub noted { open my $handle, '<', $path or return q{}; local $/; return scalar readline($handle) // q{} }

# Returns the notes once they match a pattern: actions after an answer may be noted a moment later than the answer arrives.
sub noted_like { my ($pattern) = @_; TestServer::wait_for(sub { noted() =~ $pattern }, 10); return noted() }

sub times_noted { my ($pattern) = @_; my $text = noted(); return scalar(() = $text =~ /$pattern/mg) }

# For a process that runs tests beside others.
sub take_own_notes { $path = "$directory/notes-$$"; return }

sub forget_notes { return unlink $path }

1;
