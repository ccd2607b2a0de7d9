/* poller.c - Oribi::Poller: waits for descriptors on behalf of fibers (Oribi::Scheduler), by epoll(7).
 *
 * The events are IO::READABLE, IO::PRIORITY and IO::WRITABLE, which have the numbers of EPOLLIN, EPOLLPRI and EPOLLOUT.
 * Each wait is for one event: after it, a descriptor stays in the instance, but reports nothing until it is armed again.
 */
#include "ruby_host.h"
#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The most events of one call. */
#define MOST_EVENTS 256
/* The longest wait in milliseconds: an hour. */
#define LONGEST_WAIT 3600000

enum { READABLE = EPOLLIN, PRIORITY = EPOLLPRI, WRITABLE = EPOLLOUT };

typedef struct {
    int epoll, bell; /* -1: closed. `bell` is an eventfd that ends a wait. */
    int watched;     /* the descriptor that ends every wait as long as it is readable; -1: none */
} Poller;

static void close_all(Poller *poller) {
    if (poller->epoll >= 0)
        close(poller->epoll);
    if (poller->bell >= 0)
        close(poller->bell);
    poller->epoll = poller->bell = -1;
}

static void poller_free(void *pointer) {
    close_all((Poller *)pointer);
    xfree(pointer);
}

static size_t poller_size(const void *pointer) {
    return sizeof(Poller);
}

static const rb_data_type_t poller_type = {
    .wrap_struct_name = "Oribi::Poller",
    .function = {.dfree = poller_free, .dsize = poller_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static Poller *poller_of(VALUE self) {
    Poller *poller = (Poller *)rb_check_typeddata(self, &poller_type);
    if (poller->epoll < 0)
        rb_raise(rb_eIOError, "closed poller");
    return poller;
}

static bool add(const Poller *poller, int descriptor, uint32_t events) {
    struct epoll_event event = {.events = events, .data = {.fd = descriptor}};
    return epoll_ctl(poller->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static VALUE poller_new(VALUE class) {
    Poller *poller;
    VALUE self = TypedData_Make_Struct(class, Poller, &poller_type, poller);
    poller->watched = poller->bell = -1;
    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (poller->epoll >= 0)
        poller->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poller->bell < 0 || !add(poller, poller->bell, EPOLLIN | EPOLLET))
        rb_sys_fail("fibers cannot wait");
    return self;
}

/* watch(descriptor): from now on this descriptor, and no other watched one, ends each wait; nil for none. */
static VALUE poller_watch(VALUE self, VALUE number) {
    Poller *poller = poller_of(self);
    const int descriptor = NIL_P(number) ? -1 : NUM2INT(number);
    struct epoll_event unused = {.events = 0};
    /* The descriptor may be closed already, and the same number may stand for another file. */
    if (poller->watched >= 0)
        epoll_ctl(poller->epoll, EPOLL_CTL_DEL, poller->watched, &unused);
    poller->watched = -1;
    if (NIL_P(number))
        return Qnil;
    if (!add(poller, descriptor, EPOLLIN))
        rb_sys_fail("fibers cannot wait for requests");
    poller->watched = descriptor;
    return Qnil;
}

/* arm(descriptor, events): reports the next of these events. Returns false for a file that is always ready. */
static VALUE poller_arm(VALUE self, VALUE number, VALUE events) {
    const Poller *poller = poller_of(self);
    const int descriptor = NUM2INT(number);
    const uint32_t wanted = NUM2UINT(events) & (READABLE | PRIORITY | WRITABLE);
    const uint32_t ends = wanted & READABLE ? EPOLLRDHUP : 0;
    struct epoll_event event = {.events = wanted | ends | EPOLLONESHOT, .data = {.fd = descriptor}};
    if (epoll_ctl(poller->epoll, EPOLL_CTL_MOD, descriptor, &event) == 0)
        return Qtrue;
    if (errno == ENOENT && epoll_ctl(poller->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0)
        return Qtrue;
    if (errno == EPERM)
        return Qfalse;
    rb_sys_fail("a fiber cannot wait for a descriptor");
}

typedef struct {
    int epoll, milliseconds, count, error;
    struct epoll_event events[MOST_EVENTS];
} Wait;

static void *wait_now(void *argument) {
    Wait *wait = (Wait *)argument;
    wait->count = epoll_wait(wait->epoll, wait->events, MOST_EVENTS, wait->milliseconds);
    wait->error = errno;
    return NULL;
}

static unsigned ready_events(uint32_t events) {
    unsigned ready = events & (READABLE | PRIORITY | WRITABLE);
    if (events & EPOLLRDHUP)
        ready |= READABLE;
    return events & (EPOLLERR | EPOLLHUP) ? ready | READABLE | WRITABLE : ready;
}

/* Rounded up, because a wait would end in vain before its time is over. */
static int milliseconds_of(VALUE seconds) {
    const double milliseconds = NIL_P(seconds) ? LONGEST_WAIT : ceil(NUM2DBL(seconds) * 1000);
    return milliseconds <= 0 ? 0 : milliseconds < LONGEST_WAIT ? (int)milliseconds : LONGEST_WAIT;
}

/* wait(seconds): returns descriptors and their events in turn. `seconds` may be nil. Other threads run meanwhile, unless
 * `seconds` is 0. */
static VALUE poller_wait(VALUE self, VALUE seconds) {
    const Poller *poller = poller_of(self);
    Wait wait = {.epoll = poller->epoll, .milliseconds = milliseconds_of(seconds), .count = 0};
    VALUE found;
    if (wait.milliseconds == 0)
        wait_now(&wait);
    else
        rb_thread_call_without_gvl(wait_now, &wait, RUBY_UBF_IO, NULL);
    rb_thread_check_ints();
    if (wait.count < 0 && wait.error != EINTR) {
        errno = wait.error;
        rb_sys_fail("fibers cannot wait");
    }
    found = rb_ary_new();
    for (int i = 0; i < wait.count; i++) {
        const int descriptor = wait.events[i].data.fd;
        if (descriptor == poller->watched)
            continue;
        if (descriptor == poller->bell) {
            /* The next write makes an edge in any case, so nothing is read. */
            continue;
        }
        rb_ary_push(found, INT2FIX(descriptor));
        rb_ary_push(found, UINT2NUM(ready_events(wait.events[i].events)));
    }
    RB_GC_GUARD(self);
    return found;
}

/* Ends the present wait or, if there is none, the next one. May be called on any thread. */
static VALUE poller_wake(VALUE self) {
    const Poller *poller = (const Poller *)rb_check_typeddata(self, &poller_type);
    const uint64_t one = 1;
    if (poller->bell >= 0 && write(poller->bell, &one, sizeof one) < 0) {
        /* The counter is full, and the wait has been woken long since. */
    }
    return Qnil;
}

static VALUE poller_close(VALUE self) {
    close_all((Poller *)rb_check_typeddata(self, &poller_type));
    return Qnil;
}

void poller_define(void) {
    VALUE class = rb_define_class_under(oribi_module, "Poller", rb_cObject);
    rb_undef_alloc_func(class);
    rb_define_singleton_method(class, "new", poller_new, 0);
    rb_define_method(class, "watch", poller_watch, 1);
    rb_define_method(class, "arm", poller_arm, 2);
    rb_define_method(class, "wait", poller_wait, 1);
    rb_define_method(class, "wake", poller_wake, 0);
    rb_define_method(class, "close", poller_close, 0);
}
