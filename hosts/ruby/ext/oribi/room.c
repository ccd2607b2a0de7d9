/* room.c - content for clients that read slowly: a thread waits until there is room for more, and so does a fiber, while others
 * run. */
#include "ruby_host.h"
#include <ruby/fiber/scheduler.h>

/* The interval in milliseconds at which a thread of the app looks for room, while fibers run in the worker's own thread. */
#define LOOK_EVERY 10

/* A fiber that waits for its client. */
typedef struct Writer {
    oribi_lane *lane;
    oribi_exchange exchange;
    VALUE fiber;
    bool woken;
    struct Writer *next;
} Writer;

static Writer *writers;

/* Wakes the lane. NULL without --fibers. */
static oribi_waker *waker;

void room_open(oribi_lane *lane) {
    room_close();
    waker = oribi_lane_waker(lane);
}

void room_close(void) {
    if (waker)
        oribi_waker_free(waker);
    waker = NULL;
}

void room_note_use(void) {
    if (waker && !context_own())
        oribi_wake(waker);
}

static VALUE block(VALUE scheduler) {
    return rb_fiber_scheduler_block(scheduler, Qnil, Qnil);
}

static VALUE forget(VALUE argument) {
    Writer **link = &writers;
    while (*link && *link != (const Writer *)argument)
        link = &(*link)->next;
    if (*link)
        *link = (*link)->next;
    return Qnil;
}

static oribi_result wait_in_thread(oribi_lane *lane, oribi_exchange exchange) {
    oribi_result result = oribi_write(lane, exchange, "", 0);
    /* The client must still be waited for. */
    while (result == ORIBI_WOKEN) {
        rb_thread_check_ints();
        result = oribi_write(lane, exchange, "", 0);
    }
    return result;
}

/* Waits once. */
static oribi_result wait_for_room(oribi_lane *lane, oribi_exchange exchange) {
    const VALUE scheduler = rb_fiber_scheduler_current();
    if (!context_own()) {
        rb_thread_wait_for((struct timeval){0, LOOK_EVERY * 1000});
    } else if (NIL_P(scheduler)) {
        return wait_in_thread(lane, exchange);
    } else {
        Writer writer = {lane, exchange, rb_fiber_current(), false, writers};
        writers = &writer;
        rb_ensure(block, scheduler, forget, (VALUE)&writer);
    }
    return ORIBI_OK;
}

oribi_result room_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size) {
    oribi_result result;
    if (RB_LIKELY(!server.fibers)) {
        result = oribi_write(lane, exchange, data, size);
        return result == ORIBI_WOKEN ? wait_in_thread(lane, exchange) : result;
    }
    result = oribi_offer(lane, exchange, data, size);
    room_note_use();
    while (result == ORIBI_OK && oribi_has_room(lane, exchange) == 0)
        result = wait_for_room(lane, exchange);
    return result;
}

static VALUE unblock_all(VALUE unused) {
    const VALUE found = rb_ary_new();
    for (Writer *writer = writers; writer; writer = writer->next) {
        if (writer->woken || oribi_has_room(writer->lane, writer->exchange) == 0)
            continue;
        writer->woken = true;
        rb_ary_push(found, writer->fiber);
    }
    for (long i = 0; i < RARRAY_LEN(found); i++)
        rb_fiber_scheduler_unblock(server.scheduler, Qnil, RARRAY_AREF(found, i));
    return Qnil;
}

void room_attend(void) {
    if (writers)
        failure_guard("fibers that wait for clients cannot go on", Qnil, unblock_all, Qnil);
}
