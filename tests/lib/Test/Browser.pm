package Test::Browser;

# A browser for a test, without scripts: it keeps connections and cookies, follows redirects and links, fills in forms, and dies
# where an answer is an error.

use v5.36;
use parent 'WWW::Mechanize';
use Carp                qw(croak);
use Encode              qw(encode_utf8);
use LWP::Protocol::http ();
use Test::More          ();

# Names such as auth.example.com are of this machine.
@LWP::Protocol::http::EXTRA_SOCK_OPTS = (PeerAddr => '127.0.0.1');

# Test::Browser->new(URL, OTHER...): a browser for the application at URL, which does not end with a slash. The application may
# also have the URLs OTHER.
sub new ($class, $url, @others) {
    my $self = $class->SUPER::new(keep_alive => 4, timeout => 120, autocheck => 1, strict_forms => 1, agent => 'Test::Browser');
    $self->{start}  = $url;
    $self->{places} = [$url, @others];
    $self->{strays} = [];
    return $self;
}

# Goes to the page at PATH of the application.
sub visit ($self, $path) {
    return $self->get("$self->{start}$path");
}

# Fills in the form that has these fields, and sends it; `button` names the button. A field for a file takes the path of one.
sub send_form ($self, %fields) {
    my $button = delete $fields{button};
    my $form   = $self->form_with_fields(keys %fields) // croak 'no form has the fields ' . join ', ', sort keys %fields;
    for my $name (sort keys %fields) {
        my $input = $form->find_input($name);
        if ($input->type eq 'file') { $input->file($fields{$name}) }
        else                        { $input->value($fields{$name}) }
    }
    return defined $button ? $self->click($button) : $self->submit;
}

# Asks for URL and returns the status of the answer, which may be an error.
sub status_of ($self, $url) {
    local $self->{autocheck} = 0;
    return $self->get($url)->code;
}

# A test that is passed if the current page has a text.
sub shows ($self, $pattern, $name) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return 1 if Test::More::ok($self->content =~ $pattern, $name);
    Test::More::diag(encode_utf8($self->uri . " does not show $pattern:\n" . $self->content(format => 'text')));
    return 0;
}

# The places outside of the application that redirects have led to.
sub strays ($self) { return @{ $self->{strays} } }

sub redirect_ok ($self, $request, $response) {
    my $place = $request->uri;
    push @{ $self->{strays} }, "$place" if !grep { index("$place", "$_/") == 0 } @{ $self->{places} };
    return $self->SUPER::redirect_ok($request, $response);
}

1;
