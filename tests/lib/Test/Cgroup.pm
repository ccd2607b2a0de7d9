package Test::Cgroup;

# A memory cgroup of its own for a server: when its processes need more than they may have, the kernel kills one of them. Needs root.

use v5.36;
use Carp        qw(croak);
use Time::HiRes qw(sleep);

my $count = 0;

# Test::Cgroup->new(MIB): of either generation of cgroups, the one that has the memory of this machine.
sub new ($class, $limit) {
    my $second = -e '/sys/fs/cgroup/cgroup.controllers';
    my $top    = $second ? '/sys/fs/cgroup' : '/sys/fs/cgroup/memory';
    my $path   = "$top/oribi-$$-" . ++$count;
    _write("$top/cgroup.subtree_control", '+memory') if $second;
    mkdir $path or croak "$path: $!";
    my $self = bless { path => $path, owner => $$ }, $class;
    _write("$path/" . ($second ? 'memory.max' : 'memory.limit_in_bytes'), $limit * 2**20);
    # Only the second generation can turn swapping off everywhere.
    _write("$path/memory.swap.max", 0) if -e "$path/memory.swap.max";
    return $self;
}

# A process that writes its number there is inside, with all that it starts.
sub door ($self) { return "$self->{path}/cgroup.procs" }

# The number of processes that the kernel has killed in it.
sub killed ($self) {
    for my $file (qw(memory.events memory.oom_control)) {
        open my $in, '<', "$self->{path}/$file" or next;
        return $1 if join(q(), readline $in) =~ /^oom_kill (\d+)/m;
    }
    return croak "$self->{path} does not count";
}

sub _write ($file, $text) {
    open my $out, '>', $file or croak "$file: $!";
    print {$out} $text;
    return close $out || croak "$file: $!";
}

sub DESTROY ($self) {
    return if $self->{owner} != $$;
    # Its processes have been killed, but may not have ended.
    for (1 .. 500) {
        return if rmdir $self->{path};
        sleep 0.02;
    }
    return;
}

1;
