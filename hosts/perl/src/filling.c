/* filling.c - fills the PSGI environment of a request.
 *
 * Building a hash of thirty entries costs more than everything else that Oribi does for a request. So a hash that the app did
 * not keep is reused: its values are overwritten, and only keys that one of the two requests does not have are added or
 * removed.
 */
#include "perl_host.h"

/* Buckets of a new hash: room for the entries of a request and a framework. If the hash grew, its order would change. */
#define BUCKETS 64

/* The flags of a plain string: no number cached, no magic, no shared buffer, no wide representation. */
#define TEXT_FLAGS (SVt_PV | SVf_POK | SVp_POK)

/* Copies bytes. Most values are short, and a call of memcpy would take longer than copying them. Up to 16 bytes are copied as
 * two words or two halves of words, which may overlap, and fewer than 4 bytes one by one. */
static inline void copy(char *target, const char *from, size_t size) {
    if (size > 2 * sizeof(uint64_t)) {
        memcpy(target, from, size);
    } else if (size >= sizeof(uint64_t)) {
        uint64_t start, end;
        memcpy(&start, from, sizeof start);
        memcpy(&end, from + size - sizeof end, sizeof end);
        memcpy(target, &start, sizeof start);
        memcpy(target + size - sizeof end, &end, sizeof end);
    } else if (size >= sizeof(uint32_t)) {
        uint32_t start, end;
        memcpy(&start, from, sizeof start);
        memcpy(&end, from + size - sizeof end, sizeof end);
        memcpy(target, &start, sizeof start);
        memcpy(target + size - sizeof end, &end, sizeof end);
    } else if (size > 0) {
        const char start = from[0], middle = from[size / 2], end = from[size - 1];
        target[0] = start;
        target[size / 2] = middle;
        target[size - 1] = end;
    }
}

/* Sets a value that cannot be overwritten in place. */
static void text_replace(pTHX_ Slot *slot, const char *data, size_t size) __attribute__((noinline, cold));

static void text_replace(pTHX_ Slot *slot, const char *data, size_t size) {
    SV *value = slot->value;
    sv_setpvn(value, size ? data : "", size);
    SvUTF8_off(value);
    slot->flags = SvFLAGS(value);
    slot->expected.text = SvPVX(value);
}

static inline void text_set(pTHX_ Slot *slot, const oribi_bytes *text) {
    const char *data = text->data;
    const size_t size = text->size;
    SV *value = slot->value;
    if (LIKELY(SvFLAGS(value) == TEXT_FLAGS && SvLEN(value) > size)) {
        char *target = SvPVX(value);
        copy(target, data, size);
        target[size] = '\0';
        SvCUR_set(value, size);
    } else {
        text_replace(aTHX_ slot, data, size);
    }
}

/* Adds an entry. environment_remember() gives it its lasting place in `slots`. */
static void add(pTHX_ Environment *environment, SV *name, SV *value, U32 key, SlotKind kind) {
    HE *entry = hv_store_ent(environment->hash, name, value, SvIsCOW_shared_hash(name) ? SvSHARED_HASH(name) : 0);
    Slot *slot;
    if (!entry) {
        SvREFCNT_dec(value);
        return;
    }
    if (environment->slot_count == SLOTS_MAXIMUM) {
        environment->rememberable = FALSE;
        return;
    }
    slot = &environment->slots[environment->slot_count++];
    slot->entry = entry;
    slot->name = HeKEY_hek(entry);
    slot->key = key;
    slot->filled_for = environment->request;
    environment_expect(slot, kind, value);
}

static void add_psgi(pTHX_ Environment *environment, U32 psgi_key, SV *value, SlotKind kind) {
    U32 key = environment->server_keys + psgi_key;
    add(aTHX_ environment, environment->names[key], value, key, kind);
}

/* Adds a variable that the hash does not have. */
static void add_text(pTHX_ Environment *environment, U32 key, oribi_bytes text) __attribute__((noinline, cold));

static void add_text(pTHX_ Environment *environment, U32 key, oribi_bytes text) {
    add(aTHX_ environment, environment->names[key], environment_text(aTHX_ text), key, SLOT_TEXT);
    environment->text_slots++;
}

static void make_hash(pTHX_ Environment *environment, bool gateway) __attribute__((noinline, cold));

static void make_hash(pTHX_ Environment *environment, bool gateway) {
    HV *hash = newHV();
    hv_ksplit(hash, BUCKETS);
    environment->hash = hash;
    environment->slot_count = 0;
    environment->text_slots = 0;
    environment->rememberable = TRUE;
    environment->gateway = gateway;
    Zero(environment->places, environment->server_keys + PSGI_NAMES, Slot *);
    add_psgi(aTHX_ environment, PSGI_VERSION, newRV_inc(environment->version), SLOT_REFERENCE);
    if (!gateway)
        add_psgi(aTHX_ environment, PSGI_ERRORS, newRV_inc(environment->errors), SLOT_REFERENCE);
    add_psgi(aTHX_ environment, PSGI_MULTITHREAD, newSViv(0), SLOT_INTEGER);
    /* "may be simultaneously invoked by another process": true even for a single worker, which overlaps with its successor. */
    add_psgi(aTHX_ environment, PSGI_MULTIPROCESS, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_RUN_ONCE, newSViv(0), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_NONBLOCKING, newSViv(environment->nonblocking), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_STREAMING, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_INPUT_BUFFERED, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_HARAKIRI, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_CLEANUP, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_LOGGER, newRV_inc(environment->logger), SLOT_REFERENCE);
    if (environment->deadline)
        add_psgi(aTHX_ environment, ORIBI_DEADLINE, newRV_inc(environment->deadline), SLOT_REFERENCE);
    if (environment->nonblocking) {
        add_psgi(aTHX_ environment, ORIBI_ON_GONE, newRV_inc((SV *)get_cv("Oribi::on_request_gone", 0)), SLOT_REFERENCE);
        add_psgi(aTHX_ environment, ORIBI_ON_ROOM, newRV_inc((SV *)get_cv("Oribi::on_request_room", 0)), SLOT_REFERENCE);
    }
}

/* Frees the kept hash after the app has returned: the pointers in the request become invalid when a destructor in the hash
 * calls the server. */
static void retire_hash(pTHX_ Environment *environment) {
    sv_2mortal((SV *)environment->hash);
    environment->hash = NULL;
    SvREFCNT_dec(environment->reference);
    environment->reference = NULL;
}

/* Fills a variable whose name is not interned. First tries the slots from `from` on, because a proxy mostly sends such
 * variables in the same order. Returns the place at which to continue the search. */
static U32 fill_other(pTHX_ Environment *environment, const oribi_variable *variable, U32 from, bool *changed) {
    SV *name;
    HE *entry;
    /* No client can send such a field, because of the slash; the variables of a web server in front may have any name. */
    if (UNLIKELY(variable->name.size == 16 && variable->name.data[10] == '/') && !environment->gateway
        && memEQ(variable->name.data, "HTTP_ORIBI/EVENT", 16))
        environment->is_event = TRUE;
    for (U32 i = from; i < environment->slot_count; i++) {
        Slot *slot = &environment->slots[i];
        if (slot->key != ORIBI_KEY_OTHER || slot->filled_for == environment->request)
            continue;
        if ((size_t)HEK_LEN(slot->name) == variable->name.size
            && memcmp(HEK_KEY(slot->name), variable->name.data, variable->name.size) == 0) {
            text_set(aTHX_ slot, &variable->value);
            slot->filled_for = environment->request;
            return i + 1;
        }
    }
    name = newSVpvn_flags(variable->name.data, variable->name.size, SVs_TEMP);
    /* The order differs from that of the last request: look the variable up, as one that may be new to the hash. */
    entry = hv_fetch_ent(environment->hash, name, 0, 0);
    if (entry) {
        for (U32 i = 0; i < environment->slot_count; i++) {
            Slot *slot = &environment->slots[i];
            if (slot->entry == entry && slot->kind == SLOT_TEXT) {
                text_set(aTHX_ slot, &variable->value);
                slot->filled_for = environment->request;
                return from;
            }
        }
        environment->rememberable = FALSE;
        return from;
    }
    add(aTHX_ environment, name, environment_text(aTHX_ variable->value), ORIBI_KEY_OTHER, SLOT_TEXT);
    environment->text_slots++;
    *changed = TRUE;
    return from;
}

/* Removes the variables that this request does not have. */
static void remove_stale(pTHX_ Environment *environment) {
    U32 kept = 0;
    for (U32 i = 0; i < environment->slot_count; i++) {
        Slot *slot = &environment->slots[i];
        if (slot->kind == SLOT_TEXT && slot->filled_for != environment->request) {
            SV *name = sv_2mortal(newSVhek(slot->name));
            (void)hv_delete_ent(environment->hash, name, G_DISCARD, HEK_HASH(slot->name));
            environment->text_slots--;
        } else {
            environment->slots[kept++] = *slot;
        }
    }
    environment->slot_count = kept;
}

/* Sets a value that belongs to one request. */
static void fill_object(pTHX_ Environment *environment, U32 psgi_key, SV *reference) {
    Slot *slot = environment->places[environment->server_keys + psgi_key];
    if (!slot) {
        add_psgi(aTHX_ environment, psgi_key, reference, SLOT_OBJECT);
    } else {
        /* Mortal, so that its destructor runs after the app has returned: if the destructor calls the server, the pointers in
         * the request become invalid. */
        sv_2mortal(slot->value);
        HeVAL(slot->entry) = reference;
        environment_expect(slot, SLOT_OBJECT, reference);
    }
}

/* The object of a slot if another request can use it, or NULL. */
static SV *object_of(Environment *environment, U32 psgi_key) {
    const Slot *slot = environment->places[environment->server_keys + psgi_key];
    SV *object;
    if (!slot)
        return NULL;
    object = slot->expected.referent;
    return SvTYPE(object) == SVt_NULL ? NULL : object;
}

static void fill_objects(pTHX_ Context *context, const oribi_request *request) {
    Environment *environment = &context->environment;
    SV *object;
    if (request->content.size > 0 || !object_of(environment, PSGI_INPUT))
        fill_object(aTHX_ environment, PSGI_INPUT, input_new(aTHX_ environment, &request->content));
    if (UNLIKELY(environment->gateway)) {
        /* The socket belongs to a web server, so the app gets neither psgix.io nor psgix.informational. */
        object = object_of(environment, PSGI_ERRORS);
        if (object)
            errors_rebind(context, object);
        else
            fill_object(aTHX_ environment, PSGI_ERRORS, errors_new(aTHX_ context));
    } else {
        object = object_of(environment, PSGIX_IO);
        if (!object || !socket_rebind(context, request, object))
            fill_object(aTHX_ environment, PSGIX_IO, socket_new(aTHX_ context, request));
        object = object_of(environment, PSGIX_INFORMATIONAL);
        if (object)
            informational_rebind(context, object);
        else
            fill_object(aTHX_ environment, PSGIX_INFORMATIONAL, informational_new(aTHX_ context));
    }
    if (!object_of(environment, PSGIX_CLEANUP_HANDLERS))
        fill_object(aTHX_ environment, PSGIX_CLEANUP_HANDLERS, newRV_noinc((SV *)newAV()));
}

/* Adds an entry without a slot, as the app does: most requests do not have it. */
static void add_rare(pTHX_ Environment *environment, HV *hash, U32 psgi_key, SV *value) {
    SV *name = environment->names[environment->server_keys + psgi_key];
    (void)hv_store_ent(hash, name, value, SvSHARED_HASH(name));
}

static void push_text(pTHX_ AV *list, oribi_bytes text) {
    SV *value = newSVpvn(text.size ? text.data : "", text.size);
    if (UNLIKELY(TAINTING_get))
        SvTAINTED_on(value);
    av_push(list, value);
}

/* Whether the connection of a request may stay open as a stream of events, by the value of Accept. */
static inline bool wants_events(const Environment *environment) {
    const Slot *slot = environment->places[environment->key_accept];
    return slot && SvCUR(slot->value) >= 17 && memEQ(SvPVX_const(slot->value), "text/event-stream", 17);
}

/* Offers the app to keep the connection of a request open. */
static void add_offer(pTHX_ Context *context, HV *hash, const oribi_request *request) __attribute__((noinline, cold));

static void add_offer(pTHX_ Context *context, HV *hash, const oribi_request *request) {
    const oribi_live offer = oribi_live_offer(context->lane, request);
    const bool is_websocket = offer == ORIBI_LIVE_WEBSOCKET;
    HV *stash;
    if (offer == ORIBI_LIVE_NONE)
        return;
    stash = is_websocket ? gv_stashpvs("Oribi::WebSocket", GV_ADD) : gv_stashpvs("Oribi::EventStream", GV_ADD);
    add_rare(aTHX_ &context->environment, hash, is_websocket ? PSGIX_WEBSOCKET : PSGIX_EVENT_STREAM,
             sv_bless(newRV_noinc((SV *)newHV()), stash));
}

/* A list of names and values, in the form of the fields of a response. */
static SV *trailers_new(pTHX_ const oribi_request *request) __attribute__((noinline, cold));

static SV *trailers_new(pTHX_ const oribi_request *request) {
    AV *list = newAV();
    for (size_t i = 0; i < request->trailer_count; i++) {
        push_text(aTHX_ list, request->trailers[i].name);
        push_text(aTHX_ list, request->trailers[i].value);
    }
    return newRV_noinc((SV *)list);
}

HV *environment_fill(pTHX_ Context *context, const oribi_request *request) {
    Environment *environment = &context->environment;
    static const oribi_bytes schemes[2] = {{"http", 4}, {"https", 5}};
    const oribi_bytes *scheme = &schemes[request->https ? 1 : 0];
    const oribi_variable *variable = request->variables;
    Slot *const *const places = environment->places;
    const U32 server_keys = environment->server_keys;
    const U32 scheme_key = server_keys + PSGI_URL_SCHEME;
    /* The number of variables, and the scheme. */
    const U32 filled = (U32)request->variable_count + 1;
    U32 present, others_from = 0;
    bool changed = FALSE;
    Slot *scheme_slot;
    HV *hash;

    if (UNLIKELY(environment->hash && environment->gateway != (request->gateway != 0)))
        retire_hash(aTHX_ environment);
    if (UNLIKELY(!environment->hash)) {
        make_hash(aTHX_ environment, request->gateway != 0);
        changed = TRUE;
    }
    present = ++environment->request;
    environment->has_content = request->content.size > 0;
    for (const oribi_variable *const end = variable + request->variable_count; variable < end; variable++) {
        const U32 key = variable->key;
        Slot *slot;
        if (UNLIKELY(key >= server_keys)) {
            others_from = fill_other(aTHX_ environment, variable, others_from, &changed);
        } else if (LIKELY((slot = places[key]) != NULL)) {
            text_set(aTHX_ slot, &variable->value);
            slot->filled_for = present;
        } else {
            add_text(aTHX_ environment, key, variable->value);
            changed = TRUE;
        }
    }
    scheme_slot = environment->places[scheme_key];
    if (LIKELY(scheme_slot != NULL)) {
        text_set(aTHX_ scheme_slot, scheme);
        scheme_slot->filled_for = present;
    } else {
        add_text(aTHX_ environment, scheme_key, *scheme);
        changed = TRUE;
    }
    fill_objects(aTHX_ context, request);
    if (filled != environment->text_slots) {
        remove_stale(aTHX_ environment);
        changed = TRUE;
    }
    if (changed)
        environment_remember(environment);
    if (UNLIKELY(TAINTING_get)) {
        for (U32 i = 0; i < environment->slot_count; i++)
            if (environment->slots[i].kind == SLOT_TEXT)
                SvTAINTED_on(environment->slots[i].value);
    }
    hash = environment->hash;
    environment->hash = NULL;
    if (UNLIKELY(environment->places[environment->key_upgrade] || wants_events(environment)) && !environment->is_event)
        add_offer(aTHX_ context, hash, request);
    if (UNLIKELY(request->data != NULL))
        add_rare(aTHX_ environment, hash, ORIBI_DATA, input_new(aTHX_ environment, request->data));
    if (UNLIKELY(request->trailer_count > 0))
        add_rare(aTHX_ environment, hash, ORIBI_TRAILERS, trailers_new(aTHX_ request));
    if (UNLIKELY(request->queue_time >= 0))
        add_rare(aTHX_ environment, hash, ORIBI_QUEUE_TIME, newSVnv(request->queue_time));
    return hash;
}
