/* environment.c - the PSGI environment of a request.
 *
 * Building a hash of thirty entries costs more than everything else that Oribi does for a request. So a hash that the app did
 * not keep is reused: its values are overwritten, and only keys that differ between two requests are added or removed.
 *
 * That is permitted only if no data of one client can reach another. So after a request the hash is compared, entry by entry in
 * the order of its buckets, with the state that was recorded when it was filled. Keys that the app added are removed. If a
 * recorded entry is missing or has moved, the hash is given up. A value is overwritten in place only if it is a plain string
 * with no other reference. Constants must be unchanged bit for bit. Any other value is replaced by a new one. If anything can
 * still see the hash (a reference, a weak reference, a tie), the hash is left to it, and the next request gets a new one.
 */
#include "perl_host.h"

/* A longer string is freed rather than kept for the next request. It is the longest header line that servers commonly accept.
 */
#define TEXT_KEPT 8192

/* Buckets of a new hash: room for the entries of a request and a framework. If the hash grew, its order would change. */
#define BUCKETS 64

#define NOWHERE SLOTS_MAXIMUM

/* The flags of a plain string: no number cached, no magic, no shared buffer, no wide representation. */
#define TEXT_FLAGS (SVt_PV | SVf_POK | SVp_POK)

static const char *const psgi_names[PSGI_NAMES] = {
    [PSGI_VERSION] = "psgi.version",
    [PSGI_URL_SCHEME] = "psgi.url_scheme",
    [PSGI_INPUT] = "psgi.input",
    [PSGI_ERRORS] = "psgi.errors",
    [PSGI_MULTITHREAD] = "psgi.multithread",
    [PSGI_MULTIPROCESS] = "psgi.multiprocess",
    [PSGI_RUN_ONCE] = "psgi.run_once",
    [PSGI_NONBLOCKING] = "psgi.nonblocking",
    [PSGI_STREAMING] = "psgi.streaming",
    [PSGIX_INPUT_BUFFERED] = "psgix.input.buffered",
    [PSGIX_IO] = "psgix.io",
    [PSGIX_HARAKIRI] = "psgix.harakiri",
    [PSGIX_CLEANUP] = "psgix.cleanup",
    [PSGIX_CLEANUP_HANDLERS] = "psgix.cleanup.handlers",
    [PSGIX_INFORMATIONAL] = "psgix.informational",
    [PSGIX_LOGGER] = "psgix.logger",
    [PSGIX_HARAKIRI_COMMIT] = "psgix.harakiri.commit",
    [ORIBI_DATA] = "oribi.data",
    [ORIBI_DEADLINE] = "oribi.deadline",
};

void environment_prepare(pTHX_ Environment *environment) {
    U32 server_keys = oribi_key_count();
    AV *version = newAV();
    CV *logger = get_cv("Oribi::log_message", 0);
    environment->server_keys = server_keys;
    Newxz(environment->names, server_keys + PSGI_NAMES, SV *);
    Newxz(environment->positions, server_keys + PSGI_NAMES, U32);
    for (U32 key = 0; key < server_keys; key++) {
        oribi_bytes name = oribi_key_name(key);
        environment->names[key] = newSVpvn_share(name.data, (I32)name.size, 0);
    }
    for (U32 key = 0; key < PSGI_NAMES; key++)
        environment->names[server_keys + key] = newSVpvn_share(psgi_names[key], (I32)strlen(psgi_names[key]), 0);
    /* Read-only, because all requests share it. */
    av_push(version, newSViv(1));
    av_push(version, newSViv(1));
    SvREADONLY_on(AvARRAY(version)[0]);
    SvREADONLY_on(AvARRAY(version)[1]);
    SvREADONLY_on((SV *)version);
    environment->version = (SV *)version;
    environment->errors = SvREFCNT_inc((SV *)gv_fetchpvs("STDERR", GV_ADD | GV_NOTQUAL, SVt_PVIO));
    /* In clones STDERR is buffered: an app's messages would come late, or never if its process is killed. */
    IoFLAGS(GvIOn((GV *)environment->errors)) |= IOf_FLUSH;
    environment->logger = SvREFCNT_inc((SV *)logger);
    environment->handle_stash = gv_stashpvs("IO::File", GV_ADD);
}

void environment_release(pTHX_ Environment *environment) {
    for (U32 key = 0; key < environment->server_keys + PSGI_NAMES; key++)
        SvREFCNT_dec(environment->names[key]);
    Safefree(environment->names);
    Safefree(environment->positions);
    SvREFCNT_dec(environment->hash);
    environment->hash = NULL;
    SvREFCNT_dec(environment->version);
    SvREFCNT_dec(environment->errors);
    SvREFCNT_dec(environment->logger);
    SvREFCNT_dec(environment->deadline);
    SvREFCNT_dec(environment->content);
}

void environment_offer_deadline(pTHX_ Environment *environment) {
    environment->deadline = SvREFCNT_inc((SV *)get_cv("Oribi::extend_deadline", 0));
    /* The next request begins with a hash that has the key. */
    SvREFCNT_dec(environment->hash);
    environment->hash = NULL;
}

void environment_forget(Environment *environment) {
    /* Not freed, because its content may have been freed already. */
    environment->hash = NULL;
    environment->rememberable = FALSE;
}

/* ---- Filling ------------------------------------------------------------------------------------------------------------ */

static inline void text_set(pTHX_ Slot *slot, oribi_bytes text) {
    SV *value = slot->value;
    if (LIKELY(SvFLAGS(value) == TEXT_FLAGS && SvLEN(value) > text.size)) {
        char *target = SvPVX(value);
        memcpy(target, text.data, text.size);
        target[text.size] = '\0';
        SvCUR_set(value, text.size);
    } else {
        sv_setpvn(value, text.size ? text.data : "", text.size);
        SvUTF8_off(value);
        slot->flags = SvFLAGS(value);
        slot->expected.text = SvPVX(value);
    }
}

static SV *text_new(pTHX_ oribi_bytes text) {
    /* A little extra room, so that the next client's value probably fits. */
    SV *value = newSV(text.size < 48 ? 64 : text.size + text.size / 4);
    sv_setpvn(value, text.size ? text.data : "", text.size);
    return value;
}

/* Records the state of a value before the app has seen it. */
static void expect(Slot *slot, SlotKind kind, SV *value) {
    slot->value = value;
    slot->kind = kind;
    slot->flags = SvFLAGS(value);
    if (kind == SLOT_INTEGER)
        slot->expected.integer = SvIVX(value);
    else if (kind == SLOT_TEXT)
        slot->expected.text = SvPVX(value);
    else
        slot->expected.referent = SvRV(value);
}

/* Adds an entry. It gets its place in `slots` in remember(). */
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
    expect(slot, kind, value);
}

static void add_psgi(pTHX_ Environment *environment, U32 psgi_key, SV *value, SlotKind kind) {
    U32 key = environment->server_keys + psgi_key;
    add(aTHX_ environment, environment->names[key], value, key, kind);
}

/* Sorts `slots` into the order of the hash's buckets and records the place of each key. */
static void remember(Environment *environment) {
    HV *hash = environment->hash;
    U32 place = 0;
    environment->buckets = HvARRAY(hash);
    environment->bucket_maximum = HvMAX(hash);
    for (U32 key = 0; key < environment->server_keys + PSGI_NAMES; key++)
        environment->positions[key] = NOWHERE;
    for (STRLEN bucket = 0; bucket <= environment->bucket_maximum; bucket++) {
        HE **link = &environment->buckets[bucket];
        for (HE *entry = *link; entry; link = &HeNEXT(entry), entry = *link) {
            U32 found = place;
            Slot slot;
            while (found < environment->slot_count && environment->slots[found].entry != entry)
                found++;
            if (found == environment->slot_count) {
                environment->rememberable = FALSE;
                return;
            }
            slot = environment->slots[found];
            slot.link = link;
            environment->slots[found] = environment->slots[place];
            environment->slots[place] = slot;
            if (slot.key != ORIBI_KEY_OTHER)
                environment->positions[slot.key] = place;
            place++;
        }
    }
    if (place != environment->slot_count)
        environment->rememberable = FALSE;
}

static void make_hash(pTHX_ Environment *environment, bool gateway) {
    HV *hash = newHV();
    hv_ksplit(hash, BUCKETS);
    environment->hash = hash;
    environment->slot_count = 0;
    environment->text_slots = 0;
    environment->rememberable = TRUE;
    environment->gateway = gateway;
    for (U32 key = 0; key < environment->server_keys + PSGI_NAMES; key++)
        environment->positions[key] = NOWHERE;
    add_psgi(aTHX_ environment, PSGI_VERSION, newRV_inc(environment->version), SLOT_REFERENCE);
    if (!gateway)
        add_psgi(aTHX_ environment, PSGI_ERRORS, newRV_inc(environment->errors), SLOT_REFERENCE);
    add_psgi(aTHX_ environment, PSGI_MULTITHREAD, newSViv(0), SLOT_INTEGER);
    /* "may be simultaneously invoked by another process": true even for a single worker, which overlaps with its successor. */
    add_psgi(aTHX_ environment, PSGI_MULTIPROCESS, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_RUN_ONCE, newSViv(0), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_NONBLOCKING, newSViv(0), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGI_STREAMING, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_INPUT_BUFFERED, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_HARAKIRI, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_CLEANUP, newSViv(1), SLOT_INTEGER);
    add_psgi(aTHX_ environment, PSGIX_LOGGER, newRV_inc(environment->logger), SLOT_REFERENCE);
    if (environment->deadline)
        add_psgi(aTHX_ environment, ORIBI_DEADLINE, newRV_inc(environment->deadline), SLOT_REFERENCE);
}

/* Fills a variable whose name is not interned: the n-th of this request replaces the n-th of the previous request if it has the
 * same name, which is likely behind a proxy. Returns where to continue the search. */
static U32 fill_other(pTHX_ Environment *environment, const oribi_variable *variable, U32 from, bool *changed) {
    SV *name;
    HE *entry;
    for (U32 i = from; i < environment->slot_count; i++) {
        Slot *slot = &environment->slots[i];
        if (slot->key != ORIBI_KEY_OTHER || slot->filled_for == environment->request)
            continue;
        if ((size_t)HEK_LEN(slot->name) == variable->name.size
            && memcmp(HEK_KEY(slot->name), variable->name.data, variable->name.size) == 0) {
            text_set(aTHX_ slot, variable->value);
            slot->filled_for = environment->request;
            return i + 1;
        }
    }
    name = newSVpvn_flags(variable->name.data, variable->name.size, SVs_TEMP);
    /* The order differs from last time: fill it like a variable that is new to the hash. */
    entry = hv_fetch_ent(environment->hash, name, 0, 0);
    if (entry) {
        for (U32 i = 0; i < environment->slot_count; i++) {
            Slot *slot = &environment->slots[i];
            if (slot->entry == entry && slot->kind == SLOT_TEXT) {
                text_set(aTHX_ slot, variable->value);
                slot->filled_for = environment->request;
                return from;
            }
        }
        environment->rememberable = FALSE;
        return from;
    }
    add(aTHX_ environment, name, text_new(aTHX_ variable->value), ORIBI_KEY_OTHER, SLOT_TEXT);
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
    U32 position = environment->positions[environment->server_keys + psgi_key];
    if (position == NOWHERE) {
        add_psgi(aTHX_ environment, psgi_key, reference, SLOT_OBJECT);
    } else {
        Slot *slot = &environment->slots[position];
        /* Mortal, because its destructor may call the server, which would end the memory of the request; it runs when the app
         * has returned. */
        sv_2mortal(slot->value);
        HeVAL(slot->entry) = reference;
        expect(slot, SLOT_OBJECT, reference);
    }
}

/* The object of a slot if another request can use it, or NULL. */
static SV *object_of(Environment *environment, U32 psgi_key) {
    U32 position = environment->positions[environment->server_keys + psgi_key];
    SV *object;
    if (position == NOWHERE)
        return NULL;
    object = environment->slots[position].expected.referent;
    return SvTYPE(object) == SVt_NULL ? NULL : object;
}

static void fill_objects(pTHX_ Context *context, const oribi_request *request) {
    Environment *environment = &context->environment;
    SV *object;
    if (request->content.size > 0 || !object_of(environment, PSGI_INPUT))
        fill_object(aTHX_ environment, PSGI_INPUT, input_new(aTHX_ environment, &request->content));
    if (UNLIKELY(environment->gateway)) {
        /* The socket is a web server's: the app gets neither it nor interim responses. */
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

/* Whether a request has left an object unchanged, and nothing else refers to it. */
static bool is_reusable(pTHX_ const Environment *environment, U32 psgi_key, SV *object) {
    if (SvREFCNT(object) != 1)
        return FALSE;
    switch (psgi_key) {
    case PSGI_INPUT:
        return input_is_pristine(aTHX_ environment, object);
    case PSGI_ERRORS:
        return errors_is_pristine(aTHX_ environment, object);
    case PSGIX_IO:
        return socket_is_pristine(environment, object);
    case PSGIX_INFORMATIONAL:
        return informational_is_private(object);
    default:
        return SvTYPE(object) == SVt_PVAV && !SvMAGIC(object) && !SvOBJECT(object) && !SvREADONLY(object)
               && AvFILLp((AV *)object) < 0;
    }
}

HV *environment_fill(pTHX_ Context *context, const oribi_request *request) {
    Environment *environment = &context->environment;
    static const oribi_bytes schemes[2] = {{"http", 4}, {"https", 5}};
    const oribi_bytes *scheme = &schemes[request->https ? 1 : 0];
    U32 scheme_key = environment->server_keys + PSGI_URL_SCHEME;
    U32 filled = 0, others_from = 0;
    bool changed = FALSE;
    HV *hash;

    if (UNLIKELY(environment->hash && environment->gateway != (request->gateway != 0))) {
        sv_2mortal((SV *)environment->hash);
        environment->hash = NULL;
    }
    if (!environment->hash) {
        make_hash(aTHX_ environment, request->gateway != 0);
        changed = TRUE;
    }
    environment->request++;
    environment->has_content = request->content.size > 0;
    for (size_t i = 0; i < request->variable_count; i++) {
        const oribi_variable *variable = &request->variables[i];
        U32 position;
        if (variable->key >= environment->server_keys) {
            others_from = fill_other(aTHX_ environment, variable, others_from, &changed);
            filled++;
            continue;
        }
        position = environment->positions[variable->key];
        if (LIKELY(position != NOWHERE)) {
            Slot *slot = &environment->slots[position];
            text_set(aTHX_ slot, variable->value);
            slot->filled_for = environment->request;
        } else {
            add(aTHX_ environment, environment->names[variable->key], text_new(aTHX_ variable->value), variable->key,
                SLOT_TEXT);
            environment->text_slots++;
            changed = TRUE;
        }
        filled++;
    }
    if (environment->positions[scheme_key] != NOWHERE) {
        Slot *slot = &environment->slots[environment->positions[scheme_key]];
        text_set(aTHX_ slot, *scheme);
        slot->filled_for = environment->request;
    } else {
        add(aTHX_ environment, environment->names[scheme_key], text_new(aTHX_ *scheme), scheme_key, SLOT_TEXT);
        environment->text_slots++;
        changed = TRUE;
    }
    filled++;
    fill_objects(aTHX_ context, request);
    if (filled != environment->text_slots) {
        remove_stale(aTHX_ environment);
        changed = TRUE;
    }
    if (changed)
        remember(environment);
    if (UNLIKELY(TAINTING_get)) {
        for (U32 i = 0; i < environment->slot_count; i++)
            if (environment->slots[i].kind == SLOT_TEXT)
                SvTAINTED_on(environment->slots[i].value);
    }
    hash = environment->hash;
    environment->hash = NULL;
    if (UNLIKELY(request->data != NULL)) {
        /* Added as if by the app, because other requests do not have it. */
        SV *name = environment->names[environment->server_keys + ORIBI_DATA];
        (void)hv_store_ent(hash, name, input_new(aTHX_ environment, request->data), SvSHARED_HASH(name));
    }
    return hash;
}

/* ---- Taking back --------------------------------------------------------------------------------------------------------- */

/* Not 0 if the value of a slot has been touched. A string that the app has changed in place counts as untouched, because it
 * will be overwritten. */
static inline UV is_touched(const Slot *slot, const SV *value) {
    UV difference = PTR2UV(value) ^ PTR2UV(slot->value);
    difference |= (UV)(SvREFCNT(value) ^ 1) | (UV)(SvFLAGS(value) ^ slot->flags);
#if IVSIZE > PTRSIZE
    if (slot->kind == SLOT_INTEGER)
        return difference | (UV)(SvIVX(value) ^ slot->expected.integer);
#endif
    /* A string's buffer, an integer and a reference are at the same place of a scalar. */
    return difference | (PTR2UV(value->sv_u.svu_pv) ^ PTR2UV(slot->expected.text));
}

/* Whether the value of a slot can be reused. */
static bool is_usable(const Slot *slot, SV *value) {
    if (!is_touched(slot, value))
        return TRUE;
    /* A number cached in a string makes it a PVIV or PVNV, which is fine. Magic would need at least a PVMG. */
    return slot->kind == SLOT_TEXT && value == slot->value && SvREFCNT(value) == 1 && SvTYPE(value) >= SVt_PV
           && SvTYPE(value) <= SVt_PVNV && SvTYPE(value) != SVt_INVLIST && !SvROK(value)
           && !(SvFLAGS(value) & (SVf_READONLY | SVf_PROTECT)) && SvLEN(value) <= TEXT_KEPT;
}

/* Replaces a value that cannot be reused by a new one. The old value's destructor may run Perl code, but cannot reach the hash.
 */
static void repair(pTHX_ Slot *slot) {
    SV *old = HeVAL(slot->entry);
    SV *value;
    switch (slot->kind) {
    case SLOT_TEXT:
        value = text_new(aTHX_ (oribi_bytes){"", 0});
        break;
    case SLOT_INTEGER:
        value = newSViv(slot->expected.integer);
        break;
    case SLOT_REFERENCE:
        value = newRV_inc(slot->expected.referent);
        break;
    default:
        /* A reference to undef: the next request sets its own. */
        value = newRV_noinc(newSV(0));
        break;
    }
    HeVAL(slot->entry) = value;
    expect(slot, slot->kind, value);
    SvREFCNT_dec(old);
}

/* Whether only this code can see the hash, and it is an ordinary hash. Resets an unfinished iterator. */
static bool is_ours(pTHX_ HV *hash) {
    if (SvREFCNT(hash) != 1 || SvOBJECT(hash) || SvMAGICAL(hash) || SvMAGIC(hash) || SvREADONLY(hash) || !HvSHAREKEYS(hash)
        || HvPLACEHOLDERS_get(hash) || !HvARRAY(hash))
        return FALSE;
    if (HvHasAUX(hash)) {
        if (HvNAME_get(hash) || HvAUX(hash)->xhv_backreferences)
            return FALSE;
        hv_iterinit(hash);
    }
    return TRUE;
}

/* Whether the hash has exactly the recorded entries, at the same places. Each entry is looked for where a known part of the
 * hash must point to it: a bucket, or the entry before. If as many entries are found as exist, there are no others. */
static bool is_same_shape(const Environment *environment, HV *hash, bool *repairs) {
    const Slot *slot = environment->slots;
    const Slot *const slots_end = slot + environment->slot_count;
    UV touched = 0;
    if (HvARRAY(hash) != environment->buckets || HvMAX(hash) != environment->bucket_maximum
        || HvTOTALKEYS(hash) != environment->slot_count)
        return FALSE;
    for (; slot < slots_end; slot++) {
        const HE *entry = *slot->link;
        if (UNLIKELY(entry != slot->entry || HeKEY_hek(entry) != slot->name))
            return FALSE;
        touched |= is_touched(slot, HeVAL(entry));
    }
    *repairs = touched != 0;
    return TRUE;
}

/* Finds the entries that the app added. FALSE: not all recorded entries are there in the same order. */
static bool find_foreign(const Environment *environment, HV *hash, HE **foreign, U32 *foreign_count) {
    U32 place = 0;
    HE **buckets = HvARRAY(hash);
    *foreign_count = 0;
    for (STRLEN bucket = 0; bucket <= HvMAX(hash); bucket++) {
        for (HE *entry = buckets[bucket]; entry; entry = HeNEXT(entry)) {
            const Slot *slot = &environment->slots[place];
            if (place < environment->slot_count && slot->entry == entry && slot->name == HeKEY_hek(entry))
                place++;
            else if (*foreign_count == SLOTS_MAXIMUM)
                return FALSE;
            else
                foreign[(*foreign_count)++] = entry;
        }
    }
    return place == environment->slot_count;
}

static void repair_all(pTHX_ Environment *environment) {
    for (U32 i = 0; i < environment->slot_count; i++)
        if (!is_usable(&environment->slots[i], HeVAL(environment->slots[i].entry)))
            repair(aTHX_ &environment->slots[i]);
}

/* Releases the objects of a request now: its content is freed, and a socket that was taken over is closed. */
static void repair_objects(pTHX_ Environment *environment) {
    static const U32 direct[] = {PSGI_INPUT, PSGIX_CLEANUP_HANDLERS, PSGIX_IO, PSGIX_INFORMATIONAL};
    static const U32 through_gateway[] = {PSGI_INPUT, PSGIX_CLEANUP_HANDLERS, PSGI_ERRORS};
    const U32 *keys = environment->gateway ? through_gateway : direct;
    const size_t count = environment->gateway ? C_ARRAY_LENGTH(through_gateway) : C_ARRAY_LENGTH(direct);
    for (size_t i = 0; i < count; i++) {
        U32 position = environment->positions[environment->server_keys + keys[i]];
        if ((keys[i] == PSGI_INPUT && environment->has_content)
            || !is_reusable(aTHX_ environment, keys[i], environment->slots[position].expected.referent))
            repair(aTHX_ &environment->slots[position]);
    }
}

bool environment_return_untouched(pTHX_ Context *context, HV *hash) {
    Environment *environment = &context->environment;
    const Slot *handlers;
    bool repairs;
    if (!environment->rememberable || !is_ours(aTHX_ hash) || !is_same_shape(environment, hash, &repairs))
        return FALSE;
    handlers = &environment->slots[environment->positions[environment->server_keys + PSGIX_CLEANUP_HANDLERS]];
    if (is_touched(handlers, HeVAL(handlers->entry))
        || !is_reusable(aTHX_ environment, PSGIX_CLEANUP_HANDLERS, handlers->expected.referent))
        return FALSE;
    if (repairs)
        repair_all(aTHX_ environment);
    repair_objects(aTHX_ environment);
    environment->hash = hash;
    return TRUE;
}

void environment_return(pTHX_ Context *context, HV *hash) {
    Environment *environment = &context->environment;
    HE *foreign[SLOTS_MAXIMUM];
    U32 foreign_count;
    if (environment->hash || !environment->rememberable || !is_ours(aTHX_ hash)
        || !find_foreign(environment, hash, foreign, &foreign_count)) {
        SvREFCNT_dec(hash);
        return;
    }
    for (U32 i = 0; i < foreign_count; i++) {
        SV *name = newSVhek(HeKEY_hek(foreign[i]));
        (void)hv_delete_ent(hash, name, G_DISCARD, 0);
        SvREFCNT_dec_NN(name);
    }
    repair_all(aTHX_ environment);
    repair_objects(aTHX_ environment);
    environment->hash = hash;
    remember(environment);
}

SV *environment_value(pTHX_ Environment *environment, HV *hash, U32 psgi_key) {
    SV *name = environment->names[environment->server_keys + psgi_key];
    HE *entry = NULL;
    if (UNLIKELY(SvRMAGICAL(hash)))
        return NULL;
    /* Fetching a forbidden key of a locked hash dies, but exists does not. */
    if (hv_exists_ent(hash, name, SvSHARED_HASH(name)))
        entry = hv_fetch_ent(hash, name, 0, SvSHARED_HASH(name));
    return entry ? HeVAL(entry) : NULL;
}
