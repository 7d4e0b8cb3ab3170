#pragma once
// Tokenizers whose ids are Unicode characters, as nanoGPT's character data set has them. Text with other
// characters is refused, never dropped.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {

// `characters` by id, each the UTF-8 of one character. Refuses others, repetitions and an empty list.
Result<std::unique_ptr<Tokenizer>> make_character_tokenizer(std::vector<std::string> characters);

}  // namespace ingot::data
