#include "chat/piece_writer.h"

#include <string_view>
#include <utility>

#include "chat/json_scanner.h"

namespace thaw {

void PieceWriter::Write(ReplyPart part, char c) {
  part_ = part;
  if (IsJsonBlank(c)) {
    blanks_ += c;
    if (blanks_.size() > kMaxHeldBlanks) WriteBlanks();
    return;
  }
  bool& has_text = part == ReplyPart::kContent ? has_content_ : has_reasoning_;
  if (!begun_ && after_marker_ && has_text) writer_.Text(part, "\n");
  WriteBlanks();
  writer_.Text(part, std::string_view(&c, 1));
  begun_ = true;
  has_text = true;
}

void PieceWriter::EndPiece() {
  blanks_.clear();
  begun_ = false;
  after_marker_ = true;
}

void PieceWriter::Finish() { WriteBlanks(); }

std::string PieceWriter::TakeBlanks() { return std::exchange(blanks_, {}); }

// Those between a marker and the piece's text are dropped.
void PieceWriter::WriteBlanks() {
  if (begun_ || !after_marker_) writer_.Text(part_, blanks_);
  blanks_.clear();
}

}  // namespace thaw
