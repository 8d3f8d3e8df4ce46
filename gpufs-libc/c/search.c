/* <search.h>: linear search, and binary trees as they grow (Knuth 6.2.2, algorithms T and D). */
#include <search.h>
#include <stdlib.h>
#include <string.h>

void *lfind(const void *key, const void *base, size_t *items, size_t bytes, gpufs_comparison *compare) {
    for (size_t at = 0; at < *items; ++at) {
        const char *item = (const char *)base + at * bytes;
        if (compare(key, item) == 0) {
            return (void *)item;
        }
    }
    return NULL;
}

void *lsearch(const void *key, void *base, size_t *items, size_t bytes, gpufs_comparison *compare) {
    void *found = lfind(key, base, items, bytes, compare);
    return found != NULL ? found : memcpy((char *)base + (*items)++ * bytes, key, bytes);
}

/* The key's pointer comes first: a pointer to a node is one to it. */
struct node {
    const void *key;
    struct node *left, *right;
};

/* The place that points to the key's node, or would; `parent` gets the node above it. */
static struct node **place_of(const void *key, struct node **at, gpufs_comparison *compare, struct node **parent) {
    int order;
    *parent = NULL;
    while (*at != NULL && (order = compare(key, (*at)->key)) != 0) {
        *parent = *at;
        at = order < 0 ? &(*at)->left : &(*at)->right;
    }
    return at;
}

void *tsearch(const void *key, void **root, gpufs_comparison *compare) {
    struct node *parent, **at;
    if (root == NULL) {
        return NULL;
    }
    at = place_of(key, (struct node **)root, compare, &parent);
    if (*at == NULL && (*at = malloc(sizeof **at)) != NULL) {
        **at = (struct node){key, NULL, NULL};
    }
    return *at;
}

void *tfind(const void *key, void *const *root, gpufs_comparison *compare) {
    struct node *parent;
    return root == NULL ? NULL : *place_of(key, (struct node **)root, compare, &parent);
}

void *tdelete(const void *restrict key, void **restrict root, gpufs_comparison *compare) {
    struct node *parent, *gone, **at;
    if (root == NULL || *(at = place_of(key, (struct node **)root, compare, &parent)) == NULL) {
        return NULL;
    }
    gone = *at;
    if (gone->right == NULL) {
        *at = gone->left;
    } else if (gone->left == NULL) {
        *at = gone->right;
    } else {
        /* The next key takes its place. */
        struct node **next = &gone->right;
        while ((*next)->left != NULL) {
            next = &(*next)->left;
        }
        struct node *taken = *next;
        *next = taken->right;
        taken->left = gone->left;
        taken->right = gone->right;
        *at = taken;
    }
    free(gone);
    /* The root has no parent: any pointer but null. */
    return parent != NULL ? (void *)parent : (void *)root;
}

static void walk(const struct node *node, void (*visit)(const void *, VISIT, int), int depth) {
    if (node->left == NULL && node->right == NULL) {
        visit(node, leaf, depth);
        return;
    }
    visit(node, preorder, depth);
    if (node->left != NULL) {
        walk(node->left, visit, depth + 1);
    }
    visit(node, postorder, depth);
    if (node->right != NULL) {
        walk(node->right, visit, depth + 1);
    }
    visit(node, endorder, depth);
}

void twalk(const void *root, void (*visit)(const void *entry, VISIT order, int depth)) {
    if (root != NULL) {
        walk(root, visit, 0);
    }
}
