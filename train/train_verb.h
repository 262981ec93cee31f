/* The training verb. argv[0] is its name. */
#ifndef WEFT_TRAIN_VERB_H
#define WEFT_TRAIN_VERB_H

int train_main(int argc, char **argv);      // weft train INPUT... | --resume RUN

#endif
